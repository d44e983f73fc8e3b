/* Niceness, which the kernel keeps for one thread alone: it follows its thread, is had by those
 * that it makes, and can be set by a thread's number. */
#include "event.h"
#include "threads.h"

#include <sys/resource.h>
#include <sys/syscall.h>

enum { MANY = 20, NICER = 12 };

/* What the program began with. */
static int usual;

/* Of the kernel thread that runs this, past all libraries. In one instruction: a file of
 * /proc/thread-self that is read later is that of a kernel thread which may be another thread's by
 * then. */
static long kernels_nice(void)
{
	long r;

	__asm__ volatile("syscall"
			 : "=a"(r)
			 : "0"(SYS_getpriority), "D"(PRIO_PROCESS), "S"(0)
			 : "rcx", "r11", "memory");
	return 20 - r;
}

static void is_nice(int n)
{
	errno = 0;
	EXPECT_EQ(getpriority(PRIO_PROCESS, 0), n);
	EXPECT_EQ(getpriority(PRIO_PROCESS, (id_t)gettid()), n);
	EXPECT_EQ(syscall(SYS_getpriority, PRIO_PROCESS, 0), 20 - n);
	EXPECT_EQ(kernels_nice(), n);
}

static void *is_not_nice(void *arg)
{
	is_nice(usual);
	wander();
	is_nice(usual);
	return arg;
}

static void *is_nice_by_birth(void *arg)
{
	is_nice(NICER);
	wander();
	is_nice(NICER);
	return arg;
}

static void *becomes_nice(void *arg)
{
	pthread_t t;

	EXPECT_EQ(nice(1), usual + 1);
	is_nice(usual + 1);
	wander();
	is_nice(usual + 1);
	EXPECT_EQ(setpriority(PRIO_PROCESS, 0, NICER), 0);
	wander();
	is_nice(NICER);
	EXPECT_EQ(pthread_create(&t, NULL, is_nice_by_birth, NULL), 0);
	EXPECT_EQ(pthread_join(t, NULL), 0);
	return arg;
}

TEST(a_nice_thread_is_nice_alone)
{
	usual = getpriority(PRIO_PROCESS, 0);
	for (int i = 0; i < 3; i++) {
		pthread_t t[MANY], other[MANY];
		start(t, MANY, becomes_nice, NULL);
		start(other, MANY, is_not_nice, NULL);
		join(t, MANY);
		join(other, MANY);
		is_nice(usual);
		run(MANY, is_not_nice, NULL);
	}
}

static _Atomic pid_t named_tid;
static struct event told, done;

static void *is_made_nice(void *arg)
{
	named_tid = gettid();
	tick(&told);
	await(&done, 1);
	wander();
	is_nice(NICER);
	return arg;
}

TEST(a_thread_is_made_nice_by_its_number)
{
	pthread_t t;

	usual = getpriority(PRIO_PROCESS, 0);
	EXPECT_EQ(pthread_create(&t, NULL, is_made_nice, NULL), 0);
	await(&told, 1);
	EXPECT_EQ(getpriority(PRIO_PROCESS, (id_t)named_tid), usual);
	EXPECT_EQ(setpriority(PRIO_PROCESS, (id_t)named_tid, NICER), 0);
	EXPECT_EQ(getpriority(PRIO_PROCESS, (id_t)named_tid), NICER);
	tick(&done);
	EXPECT_EQ(pthread_join(t, NULL), 0);
	is_nice(usual);
	run(MANY, is_not_nice, NULL);
	/* Who is joined may be on its way out of the kernel still. */
	while ((errno = 0, setpriority(PRIO_PROCESS, (id_t)named_tid, NICER)) == 0)
		sched_yield();
	EXPECT_EQ(errno, ESRCH);
}

static void *is_nice_as_its_creator(void *arg)
{
	is_nice(usual + 2);
	return arg;
}

TEST(threads_of_a_nice_first_one_are_nice)
{
	usual = getpriority(PRIO_PROCESS, 0);
	run(2, is_not_nice, NULL);
	EXPECT_EQ(setpriority(PRIO_PROCESS, 0, usual + 2), 0);
	run(MANY, is_nice_as_its_creator, NULL);
	wander();
	is_nice(usual + 2);
}
