/* Rings that the kernel gives to one thread alone. */
#include "threads.h"

#include <linux/io_uring.h>
#include <string.h>
#include <sys/syscall.h>

enum { SINGLE_ISSUER = 1 << 12, THREADS = 6, ROUNDS = 2000 };

static void *enters(void *arg)
{
	struct io_uring_params p;
	int fd;

	memset(&p, 0, sizeof(p));
	p.flags = SINGLE_ISSUER;
	fd = (int)syscall(SYS_io_uring_setup, 4, &p);
	/* Not every kernel has them, nor does every sandbox permit them. */
	if (fd < 0)
		return arg;
	for (int i = 0; i < ROUNDS; i++) {
		/* With nothing to submit; it is refused to any other thread all the same. */
		EXPECT_EQ(syscall(SYS_io_uring_enter, fd, 1, 0, 0, NULL, 0), 0);
		sched_yield();
	}
	close(fd);
	return arg;
}

TEST(a_ring_of_one_thread_stays_its_own)
{
	pthread_t t[THREADS];

	start(t, THREADS, enters, NULL);
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
