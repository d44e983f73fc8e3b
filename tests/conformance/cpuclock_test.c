/* Clocks of the cpu time that threads have used. */
#include "common.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>

#include "event.h"

enum { NS = 1000 * 1000 /* of a ms */, HOGS = 4 };

static int64_t ns_by(clockid_t clock)
{
	struct timespec t;

	EXPECT_EQ(clock_gettime(clock, &t), 0);
	return (int64_t)t.tv_sec * 1000 * NS + t.tv_nsec;
}

static int64_t own(void)
{
	return ns_by(CLOCK_THREAD_CPUTIME_ID);
}

static void computes(int64_t ns)
{
	int64_t end = own() + ns;

	while (own() < end)
		for (volatile int i = 0; i < 10000; i++)
			continue;
}

/* ---- what was computed, each for itself ---- */

static _Atomic int64_t sum;

static void *computes_so_long(void *arg)
{
	int64_t before = own();

	EXPECT(before < 20 * NS);
	computes((int64_t)(intptr_t)arg * NS);
	sum += own() - before;
	return NULL;
}

/* Beside each other, so that they are stopped and go on elsewhere. */
TEST(each_thread_s_clock_tells_what_it_has_computed)
{
	pthread_t t[HOGS];
	int64_t before, all;

	computes(30 * NS);
	before = ns_by(CLOCK_PROCESS_CPUTIME_ID);
	for (intptr_t i = 0; i < HOGS; i++)
		EXPECT_EQ(pthread_create(&t[i], NULL, computes_so_long, (void *)(30 * (i + 1))), 0);
	for (int i = 0; i < HOGS; i++)
		EXPECT_EQ(pthread_join(t[i], NULL), 0);
	all = ns_by(CLOCK_PROCESS_CPUTIME_ID) - before;
	EXPECT(sum >= 300 * NS);
	EXPECT(sum <= all + 5 * NS);
	EXPECT(sum >= all * 7 / 10);
}

/* Whoever asks only at the end. */
static void *computes_unasked(void *arg)
{
	int64_t begun = ns_by(CLOCK_PROCESS_CPUTIME_ID), used;

	while (ns_by(CLOCK_PROCESS_CPUTIME_ID) - begun < 200 * NS)
		for (volatile int i = 0; i < 10000; i++)
			continue;
	used = own();
	EXPECT(used > 120 * NS);
	EXPECT(used < 280 * NS);
	return arg;
}

TEST(who_asks_when_all_is_done_is_told_of_all)
{
	run(1, computes_unasked, NULL);
}

/* ---- it does not go back, wherever the thread runs ---- */

static void *never_goes_back(void *arg)
{
	int64_t last = own();

	for (int i = 0; i < 20000; i++) {
		int64_t now = own();
		EXPECT(now >= last);
		last = now;
		if (i % 16 == 0)
			sched_yield();
		if (i % 1000 == 0)
			usleep(100);
	}
	return arg;
}

TEST(it_does_not_go_back)
{
	run(8, never_goes_back, NULL);
}

/* ---- who sleeps uses none ---- */

static int ends[2];
static _Atomic bool over;
static struct event asleep;

static void *reads(void *arg)
{
	int64_t before = own();
	char c;

	tick(&asleep);
	EXPECT_EQ(read(ends[0], &c, 1), 1);
	EXPECT(own() - before < 10 * NS);
	return arg;
}

static void *until_over(void *arg)
{
	while (!over)
		own();
	return arg;
}

static int64_t of(pthread_t t)
{
	clockid_t clock;

	EXPECT_EQ(pthread_getcpuclockid(t, &clock), 0);
	EXPECT_EQ(clock_getres(clock, NULL), 0);
	return ns_by(clock);
}

TEST(a_thread_s_clock_is_read_by_others)
{
	pthread_t reader, hog;
	int64_t slept, ran, mine = own();

	EXPECT_EQ(pipe(ends), 0);
	EXPECT_EQ(pthread_create(&reader, NULL, reads, NULL), 0);
	EXPECT_EQ(pthread_create(&hog, NULL, until_over, NULL), 0);
	await(&asleep, 1);
	slept = of(reader);
	ran = of(hog);
	/* It runs while we wait. */
	while (of(hog) < ran + 50 * NS)
		poll(NULL, 0, 1);
	EXPECT(of(reader) - slept < 10 * NS);
	EXPECT(own() - mine < 50 * NS);
	EXPECT_EQ(of(pthread_self()) / (50 * NS), own() / (50 * NS));
	over = true;
	EXPECT_EQ(write(ends[1], "x", 1), 1);
	EXPECT_EQ(pthread_join(reader, NULL), 0);
	EXPECT_EQ(pthread_join(hog, NULL), 0);
}

/* ---- the other ways to ask ---- */

static void *asks_in_all_ways(void *arg)
{
	struct timespec ts;
	struct rusage ru, later;
	clockid_t mine;
	int64_t a, b, c;

	computes(40 * NS);
	EXPECT_EQ(pthread_getcpuclockid(pthread_self(), &mine), 0);
	a = own();
	EXPECT_EQ(syscall(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, &ts), 0);
	b = (int64_t)ts.tv_sec * 1000 * NS + ts.tv_nsec;
	c = ns_by(mine);
	EXPECT(a <= b && b <= c && c < a + 10 * NS);
	EXPECT_EQ(getrusage(RUSAGE_THREAD, &ru), 0);
	a = ((int64_t)ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) * 1000 * NS +
	    ((int64_t)ru.ru_utime.tv_usec + ru.ru_stime.tv_usec) * 1000;
	EXPECT(a > c - 10 * NS && a < c + 10 * NS);
	computes(5 * NS);
	EXPECT_EQ(syscall(SYS_getrusage, RUSAGE_THREAD, &later), 0);
	EXPECT(!timercmp(&later.ru_utime, &ru.ru_utime, <));
	EXPECT(!timercmp(&later.ru_stime, &ru.ru_stime, <));
	EXPECT_EQ(clock_getres(mine, &ts), 0);
	EXPECT(ts.tv_sec == 0 && ts.tv_nsec > 0);
	EXPECT_EQ(clock_nanosleep(mine, 0, &ts, NULL), EINVAL);
	errno = 0;
	EXPECT_EQ(syscall(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, (void *)8), -1);
	EXPECT_EQ(errno, EFAULT);
	return arg;
}

static void *counts_its_faults(void *arg)
{
	enum { PAGES = 100 };
	struct rusage before, after;

	for (int round = 0; round < 20; round++) {
		char *at = mmap(NULL, PAGES * 4096, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		EXPECT(at != MAP_FAILED && madvise(at, PAGES * 4096, MADV_NOHUGEPAGE) == 0);
		EXPECT_EQ(getrusage(RUSAGE_THREAD, &before), 0);
		if (round % 2)
			sched_yield();
		for (int i = 0; i < PAGES; i++)
			at[i * 4096] = 1;
		EXPECT_EQ(getrusage(RUSAGE_THREAD, &after), 0);
		EXPECT(after.ru_minflt >= before.ru_minflt);
		EXPECT(after.ru_nvcsw >= before.ru_nvcsw);
		EXPECT(after.ru_nivcsw >= before.ru_nivcsw);
		munmap(at, PAGES * 4096);
	}
	return arg;
}

TEST(what_is_counted_does_not_go_back)
{
	run(8, counts_its_faults, NULL);
}

TEST(all_ways_to_ask_agree)
{
	run(4, asks_in_all_ways, NULL);
}

/* ---- timers by it ---- */

static _Atomic int rung;

static void rings(int sig)
{
	(void)sig;
	rung++;
}

static void *computes_until_it_rings(void *arg)
{
	struct sigevent ev = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 };
	struct itimerspec in = { .it_value = { .tv_nsec = 30 * NS } };
	int64_t before;
	clockid_t mine;
	timer_t timer;

	signal(SIGUSR1, rings);
	EXPECT_EQ(pthread_getcpuclockid(pthread_self(), &mine), 0);
	EXPECT_EQ(timer_create(mine, &ev, &timer), 0);
	before = own();
	EXPECT_EQ(timer_settime(timer, 0, &in, NULL), 0);
	while (rung == 0)
		continue;
	EXPECT(own() - before >= 29 * NS);
	timer_delete(timer);
	return arg;
}

TEST(a_timer_goes_by_the_clock_of_its_maker)
{
	pthread_t hog;

	EXPECT_EQ(pthread_create(&hog, NULL, until_over, NULL), 0);
	run(1, computes_until_it_rings, NULL);
	over = true;
	EXPECT_EQ(pthread_join(hog, NULL), 0);
}

/* ---- in the child of a fork ---- */

static void *forks_and_computes(void *arg)
{
	pid_t pid;

	computes(100 * NS);
	pid = fork();
	if (pid == 0) {
		int64_t begun = own();
		if (begun > 50 * NS)
			_exit(1);
		run(2, never_goes_back, NULL);
		_exit(own() >= begun && own() < begun + 90 * NS ? 0 : 2);
	}
	EXPECT_EQ(status_of(pid), 0);
	return arg;
}

TEST(a_child_begins_anew)
{
	run(1, forks_and_computes, NULL);
}
