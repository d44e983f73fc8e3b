/* Rings that the kernel gives to one thread alone. */
#include "threads.h"

#include <linux/io_uring.h>
#include <string.h>
#include <sys/syscall.h>

enum { SINGLE_ISSUER = 1 << 12, THREADS = 6, ROUNDS = 2000 };

/* -1: not every kernel has them, nor does every sandbox permit them. */
static int ring(unsigned flags)
{
	struct io_uring_params p;

	memset(&p, 0, sizeof(p));
	p.flags = SINGLE_ISSUER | flags;
	return (int)syscall(SYS_io_uring_setup, 4, &p);
}

/* With nothing to submit; it is refused to any other thread all the same. */
static void enter_often(int fd)
{
	for (int i = 0; i < ROUNDS; i++) {
		EXPECT_EQ(syscall(SYS_io_uring_enter, fd, 1, 0, 0, NULL, 0), 0);
		sched_yield();
	}
	close(fd);
}

static void *enters(void *arg)
{
	int fd = ring(0);

	if (fd >= 0)
		enter_often(fd);
	return arg;
}

TEST(a_ring_of_one_thread_stays_its_own)
{
	pthread_t t[THREADS];

	start(t, THREADS, enters, NULL);
	join(t, THREADS);
}

static void *enables(void *arg)
{
	int fd = *(int *)arg;

	EXPECT_EQ(syscall(SYS_io_uring_register, fd, IORING_REGISTER_ENABLE_RINGS, NULL, 0), 0);
	enter_often(fd);
	return arg;
}

TEST(a_ring_is_who_enables_it_s)
{
	pthread_t t[THREADS];
	int fds[THREADS];

	for (int i = 0; i < THREADS; i++) {
		fds[i] = ring(IORING_SETUP_R_DISABLED);
		if (fds[i] < 0)
			return;
	}
	for (int i = 0; i < THREADS; i++)
		EXPECT_EQ(pthread_create(&t[i], NULL, enables, &fds[i]), 0);
	join(t, THREADS);
}

static void *is_refused(void *arg)
{
	EXPECT_EQ(syscall(SYS_io_uring_setup, 4, NULL), -1);
	EXPECT(errno == EFAULT || errno == EPERM || errno == ENOSYS);
	return arg;
}

TEST(a_ring_without_parameters_is_refused)
{
	on_thread(is_refused, NULL);
}
