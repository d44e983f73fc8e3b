/* Timers by the cpu time of a thread, one's own or another's: when they ring, for whom, and what is
 * missed; what they say of themselves, and refuse. By the names of the C library and by system
 * calls. */
#include "cputimer.h"

#include <setjmp.h>

#include <sys/wait.h>

/* ---- when, and for whom ---- */

static void *rings_for_itself(void *notify)
{
	int64_t before;

	heard.where = pthread_self();
	makes(CLOCK_THREAD_CPUTIME_ID, (int)(intptr_t)notify, gettid());
	before = ns_by(CLOCK_THREAD_CPUTIME_ID);
	set(heard.timer, EACH_MS, 0);
	/* Of no cpu time nothing comes. */
	usleep(3 * EACH_MS * 1000);
	EXPECT_EQ(heard.came.n, 0);
	computes_until(&heard.came, 1);
	EXPECT(ns_by(CLOCK_THREAD_CPUTIME_ID) - before >= EACH_MS * MS_NS);
	/* Once. */
	computes((int64_t)2 * EACH_MS * MS_NS);
	EXPECT_EQ(heard.came.n, 1);
	EXPECT_EQ(heard.missed, 0);
	EXPECT_EQ(timer_delete(heard.timer), 0);
	EXPECT_EQ(heard.wrong, 0);
	return NULL;
}

TEST(one_rings_when_its_thread_has_used_so_much)
{
	beside_one_that_computes(rings_for_itself, (void *)SIGEV_THREAD_ID);
}

/* Any thread may hear of it. */
TEST(one_rings_when_its_maker_has_used_so_much)
{
	heard.anywhere = true;
	beside_one_that_computes(rings_for_itself, (void *)SIGEV_SIGNAL);
}

/* Made before there was another thread. */
TEST(one_of_the_first_thread_s_rings_by_that_one_s_time)
{
	enum { OTHERS = 3 };
	pthread_t t[OTHERS];
	int64_t before;

	heard.where = pthread_self();
	makes(CLOCK_THREAD_CPUTIME_ID, SIGEV_THREAD_ID, gettid());
	before = ns_by(CLOCK_THREAD_CPUTIME_ID);
	set(heard.timer, EACH_MS, 0);
	start(t, OTHERS, computes_on, NULL);
	/* They use its kernel thread as well as theirs, if they may. */
	for (int i = 0; i < 20; i++)
		usleep(1000 * EACH_MS / 4);
	EXPECT_EQ(heard.came.n, 0);
	computes_until(&heard.came, 1);
	EXPECT(ns_by(CLOCK_THREAD_CPUTIME_ID) - before >= EACH_MS * MS_NS);
	EXPECT_EQ(heard.wrong, 0);
	tick(&over);
	join(t, OTHERS);
}

static pid_t its_tid;
static struct event known, made;

static void *tells_its_tid(void *arg)
{
	its_tid = gettid();
	tick(&known);
	await(&made, 1);
	return computes_on(arg);
}

/* The caller sleeps: it is the other's time, and its signal. */
TEST(one_rings_for_another_by_that_one_s_time)
{
	pthread_t t;

	start(&t, 1, tells_its_tid, NULL);
	await(&known, 1);
	heard.where = t;
	makes(clock_of(t), SIGEV_THREAD_ID, its_tid);
	set(heard.timer, EACH_MS, EACH_MS);
	tick(&made);
	await(&heard.came, 5);
	EXPECT(ns_by(clock_of(t)) >= 5 * EACH_MS * MS_NS);
	EXPECT_EQ(timer_delete(heard.timer), 0);
	tick(&over);
	join(&t, 1);
	EXPECT_EQ(heard.wrong, 0);
}

/* By the time of one, for the other. */
TEST(one_rings_for_who_sleeps_by_the_time_of_who_computes)
{
	pthread_t t[2];

	start(&t[0], 1, tells_its_tid, NULL);
	await(&known, 1);
	start(&t[1], 1, computes_on, NULL);
	heard.where = t[0];
	makes(clock_of(t[1]), SIGEV_THREAD_ID, its_tid);
	set(heard.timer, EACH_MS, 0);
	await(&heard.came, 1);
	EXPECT(ns_by(clock_of(t[1])) >= EACH_MS * MS_NS);
	EXPECT_EQ(heard.wrong, 0);
	tick(&made);
	tick(&over);
	join(t, 2);
}

/* ---- what is missed ---- */

enum { TIMES = 12 };

/* What rang and what was missed is what was used, but for the last, which are on their way. */
static void counted(int rings, int64_t used)
{
	EXPECT(rings <= used / (EACH_MS * MS_NS));
	/* On a busy machine it is late by some of them. */
	EXPECT(rings >= TIMES / 2);
}

static void *rings_often(void *arg)
{
	int64_t before;

	heard.where = pthread_self();
	makes(CLOCK_THREAD_CPUTIME_ID, SIGEV_THREAD_ID, gettid());
	before = ns_by(CLOCK_THREAD_CPUTIME_ID);
	set(heard.timer, EACH_MS, EACH_MS);
	computes((int64_t)TIMES * EACH_MS * MS_NS);
	set(heard.timer, 0, 0);
	counted(heard.came.n + heard.missed, ns_by(CLOCK_THREAD_CPUTIME_ID) - before);
	EXPECT_EQ(heard.told, heard.missed);
	EXPECT_EQ(heard.wrong, 0);
	return arg;
}

TEST(one_rings_often_and_all_are_counted)
{
	beside_one_that_computes(rings_often, NULL);
}

static void *rings_while_blocked(void *arg)
{
	int64_t before;
	siginfo_t info;
	sigset_t its;

	mask(SIG_BLOCK, SIG);
	heard.where = pthread_self();
	makes(CLOCK_THREAD_CPUTIME_ID, SIGEV_THREAD_ID, gettid());
	before = ns_by(CLOCK_THREAD_CPUTIME_ID);
	set(heard.timer, EACH_MS, EACH_MS);
	computes((int64_t)TIMES * EACH_MS * MS_NS);
	EXPECT_EQ(heard.came.n, 0);
	sigemptyset(&its);
	sigaddset(&its, SIG);
	EXPECT_EQ(sigwaitinfo(&its, &info), SIG);
	EXPECT_EQ(info.si_value.sival_int, VALUE);
	counted(1 + info.si_overrun, ns_by(CLOCK_THREAD_CPUTIME_ID) - before);
	EXPECT_EQ(timer_getoverrun(heard.timer), info.si_overrun);
	EXPECT_EQ(timer_delete(heard.timer), 0);
	return arg;
}

TEST(who_blocks_it_is_told_how_many_he_missed)
{
	beside_one_that_computes(rings_while_blocked, NULL);
}

/* ---- two of them, one signal ---- */

static _Atomic int values;

static void adds(int sig, siginfo_t *info, void *uc)
{
	(void)sig;
	(void)uc;
	values += info->si_value.sival_int;
	tick(&heard.came);
}

static void *has_two(void *arg)
{
	int sig = (int)(intptr_t)arg;
	struct sigaction action = { .sa_sigaction = adds, .sa_flags = SA_SIGINFO };
	struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = sig };
	timer_t timer[2];

	event._sigev_un._tid = gettid();
	EXPECT_EQ(sigaction(sig, &action, NULL), 0);
	mask(SIG_BLOCK, sig);
	for (int i = 0; i < 2; i++) {
		event.sigev_value.sival_int = i ? 100 : 1;
		EXPECT_EQ(timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer[i]), 0);
		set(timer[i], EACH_MS, 0);
	}
	computes((int64_t)3 * EACH_MS * MS_NS);
	mask(SIG_UNBLOCK, sig);
	computes_until(&heard.came, 2);
	EXPECT_EQ(values, 101);
	return NULL;
}

TEST(two_bring_one_signal_each)
{
	on_thread(has_two, (void *)(intptr_t)SIG);
}

TEST(two_bring_one_signal_each_of_those_that_are_not_queued)
{
	on_thread(has_two, (void *)SIGUSR1);
}

/* ---- what it says ---- */

static void *says_what_is_left(void *notify)
{
	struct itimerspec is, was, past = { .it_value = { 0, 1 } };

	heard.where = pthread_self();
	makes(CLOCK_THREAD_CPUTIME_ID, (int)(intptr_t)notify, gettid());
	EXPECT_EQ(timer_gettime(heard.timer, &is), 0);
	EXPECT_EQ(is.it_value.tv_nsec + is.it_interval.tv_nsec, 0);
	set(heard.timer, 900, 30);
	computes(50 * MS_NS);
	EXPECT_EQ(timer_gettime(heard.timer, &is), 0);
	EXPECT_EQ(is.it_interval.tv_nsec, 30 * MS_NS);
	EXPECT_EQ(is.it_value.tv_sec, 0);
	EXPECT(is.it_value.tv_nsec > 0 && is.it_value.tv_nsec <= 850 * MS_NS);
	EXPECT_EQ(timer_settime(heard.timer, TIMER_ABSTIME, &past, &was), 0);
	EXPECT(was.it_value.tv_nsec > 0 && was.it_value.tv_nsec <= is.it_value.tv_nsec);
	EXPECT_EQ(was.it_interval.tv_nsec, 30 * MS_NS);
	if (notify != (void *)SIGEV_NONE)
		computes_until(&heard.came, 1);
	EXPECT_EQ(timer_gettime(heard.timer, &is), 0);
	EXPECT_EQ(is.it_value.tv_nsec + is.it_interval.tv_nsec, 0);
	EXPECT_EQ(timer_delete(heard.timer), 0);
	FAILS(timer_gettime(heard.timer, &is), EINVAL);
	FAILS(timer_settime(heard.timer, 0, &past, NULL), EINVAL);
	FAILS(timer_getoverrun(heard.timer), EINVAL);
	FAILS(timer_delete(heard.timer), EINVAL);
	EXPECT_EQ(heard.wrong, 0);
	return NULL;
}

TEST(it_says_what_is_left)
{
	beside_one_that_computes(says_what_is_left, (void *)SIGEV_THREAD_ID);
}

TEST(one_without_a_notice_says_what_is_left)
{
	beside_one_that_computes(says_what_is_left, (void *)SIGEV_NONE);
	EXPECT_EQ(heard.came.n, 0);
}

static void *refuses(void *arg)
{
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = 65 };
	struct itimerspec bad = { .it_value = { 0, 1000 * MS_NS } };
	clockid_t mine = clock_of(pthread_self());
	timer_t timer;

	FAILS(timer_create(mine, &event, &timer), EINVAL);
	event.sigev_signo = SIG;
	event.sigev_notify = 77;
	FAILS(timer_create(mine, &event, &timer), EINVAL);
	event.sigev_notify = SIGEV_THREAD_ID;
	event._sigev_un._tid = 1;
	FAILS(timer_create(mine, &event, &timer), EINVAL);
	makes(mine, SIGEV_SIGNAL, 0);
	FAILS(timer_settime(heard.timer, 0, &bad, NULL), EINVAL);
	bad.it_value = (struct timespec){ -1, 0 };
	FAILS(timer_settime(heard.timer, 0, &bad, NULL), EINVAL);
	bad.it_value = (struct timespec){ 1, 0 };
	bad.it_interval.tv_nsec = -1;
	FAILS(timer_settime(heard.timer, 0, &bad, NULL), EINVAL);
	FAILS(timer_settime(heard.timer, 0, (struct itimerspec *)8, NULL), EFAULT);
	FAILS(timer_gettime(heard.timer, (struct itimerspec *)8), EFAULT);
	EXPECT_EQ(timer_delete(heard.timer), 0);
	return arg;
}

TEST(it_refuses_what_the_kernel_does)
{
	on_thread(refuses, NULL);
}

/* ---- whose thread has ended ---- */

static void *tells_and_sleeps(void *arg)
{
	*(_Atomic pid_t *)arg = gettid();
	return sleeps_until_over(arg);
}

TEST(one_whose_thread_has_ended_rings_no_more)
{
	struct itimerspec spec = spec_of(EACH_MS, EACH_MS), is;
	_Atomic pid_t tid;
	pthread_t t;

	heard.anywhere = true;
	start(&t, 1, tells_and_sleeps, &tid);
	makes(clock_of(t), SIGEV_SIGNAL, 0);
	set(heard.timer, EACH_MS, EACH_MS);
	tick(&over);
	join(&t, 1);
	await_end_of(tid);
	EXPECT_EQ(timer_gettime(heard.timer, &is), 0);
	EXPECT_EQ(is.it_value.tv_sec + is.it_value.tv_nsec, 0);
	EXPECT_EQ(is.it_interval.tv_sec + is.it_interval.tv_nsec, 0);
	FAILS(timer_settime(heard.timer, 0, &spec, NULL), ESRCH);
	/* Another has its place, and uses as much. */
	over.n = 0;
	start(&t, 1, computes_on, NULL);
	computes((int64_t)3 * EACH_MS * MS_NS);
	tick(&over);
	join(&t, 1);
	EXPECT_EQ(heard.came.n, 0);
	EXPECT_EQ(timer_delete(heard.timer), 0);
}

/* ---- by system calls ---- */

/* Before there is another thread. */
TEST(system_calls_of_the_first_thread_are_for_its_time)
{
	struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID,
				  .sigev_signo = SIG,
				  .sigev_value.sival_int = VALUE,
				  ._sigev_un._tid = gettid() };
	struct itimerspec spec = spec_of(EACH_MS, 0);
	pthread_t t[3];
	int timer;

	heard.where = pthread_self();
	makes(CLOCK_MONOTONIC, SIGEV_NONE, 0);
	EXPECT_EQ(syscall(SYS_timer_create, CLOCK_THREAD_CPUTIME_ID, &event, &timer), 0);
	EXPECT_EQ(syscall(SYS_timer_settime, timer, 0, &spec, NULL), 0);
	start(t, 3, computes_on, NULL);
	for (int i = 0; i < 20; i++)
		usleep(1000 * EACH_MS / 4);
	EXPECT_EQ(heard.came.n, 0);
	computes_until(&heard.came, 1);
	tick(&over);
	join(t, 3);
}

static void *rings_by_system_calls(void *arg)
{
	struct itimerspec spec = spec_of(EACH_MS, 0), is;
	struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID,
				  .sigev_signo = SIG,
				  .sigev_value.sival_int = VALUE,
				  ._sigev_un._tid = (pid_t)syscall(SYS_gettid) };
	int timer = -1;

	heard.where = pthread_self();
	makes(CLOCK_THREAD_CPUTIME_ID, SIGEV_NONE, 0);
	EXPECT_EQ(syscall(SYS_timer_create, ~gettid() << 3 | 6, &event, &timer), 0);
	EXPECT(timer >= 0);
	EXPECT_EQ(syscall(SYS_timer_settime, timer, 0, &spec, NULL), 0);
	EXPECT_EQ(syscall(SYS_timer_gettime, timer, &is), 0);
	EXPECT(is.it_value.tv_nsec > 0 && is.it_value.tv_nsec <= EACH_MS * MS_NS);
	computes_until(&heard.came, 1);
	EXPECT_EQ(syscall(SYS_timer_getoverrun, timer), 0);
	EXPECT_EQ(syscall(SYS_timer_delete, timer), 0);
	FAILS(syscall(SYS_timer_delete, timer), EINVAL);
	FAILS(syscall(SYS_timer_create, CLOCK_THREAD_CPUTIME_ID, 8, &timer), EFAULT);
	FAILS(syscall(SYS_timer_create, CLOCK_THREAD_CPUTIME_ID, &event, 8), EFAULT);
	/* By another clock it is for this thread, too. */
	EXPECT_EQ(syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &timer), 0);
	EXPECT_EQ(syscall(SYS_timer_settime, timer, 0, &spec, NULL), 0);
	await(&heard.came, 2);
	EXPECT_EQ(syscall(SYS_timer_delete, timer), 0);
	EXPECT_EQ(heard.wrong, 0);
	return arg;
}

TEST(system_calls_do_the_same)
{
	beside_one_that_computes(rings_by_system_calls, NULL);
}

/* ---- in the child of a fork ---- */

static void *forks(void *arg)
{
	struct itimerspec is;
	pid_t pid;

	makes(CLOCK_THREAD_CPUTIME_ID, SIGEV_SIGNAL, 0);
	set(heard.timer, EACH_MS, EACH_MS);
	pid = fork();
	if (pid == 0) {
		if (timer_gettime(heard.timer, &is) == 0 || errno != EINVAL)
			_exit(1);
		heard.came.n = 0;
		computes((int64_t)3 * EACH_MS * MS_NS);
		if (heard.came.n != 0)
			_exit(2);
		makes(CLOCK_THREAD_CPUTIME_ID, SIGEV_SIGNAL, 0);
		set(heard.timer, EACH_MS, 0);
		computes_until(&heard.came, 1);
		_exit(timer_delete(heard.timer) == 0 ? 0 : 3);
	}
	EXPECT_EQ(status_of(pid), 0);
	EXPECT_EQ(timer_delete(heard.timer), 0);
	return arg;
}

TEST(a_child_has_none)
{
	heard.anywhere = true;
	on_thread(forks, NULL);
}

/* ---- sleeping by another thread's time ---- */

TEST(one_sleeps_until_another_has_used_so_much)
{
	struct timespec ms = { 0, EACH_MS * MS_NS }, left;
	int64_t before;
	clockid_t its;
	pthread_t t;

	start(&t, 1, computes_on, NULL);
	its = clock_of(t);
	before = ns_by(its);
	EXPECT_EQ(clock_nanosleep(its, 0, &ms, &left), 0);
	EXPECT(ns_by(its) - before >= EACH_MS * MS_NS);
	EXPECT_EQ(clock_nanosleep(its, TIMER_ABSTIME, &ms, NULL), 0);
	ms.tv_nsec = -1;
	EXPECT_EQ(clock_nanosleep(its, 0, &ms, NULL), EINVAL);
	tick(&over);
	join(&t, 1);
}

static sigjmp_buf back;

static void jumps_back(int sig)
{
	(void)sig;
	siglongjmp(back, 1);
}

/* A thread's timer rings for what it has used before it sleeps. */
static void *sleeps_through(void *arg)
{
	struct sigaction act = { .sa_handler = jumps_back };
	sigset_t usr2;
	struct timespec nap = { .tv_nsec = 3 * MS_NS };

	sigemptyset(&usr2);
	sigaddset(&usr2, SIGUSR2);
	EXPECT_EQ(sigaction(SIGUSR2, &act, NULL), 0);
	EXPECT_EQ(pthread_sigmask(SIG_BLOCK, &usr2, NULL), 0);
	EXPECT_EQ(raise(SIGUSR2), 0);
	if (sigsetjmp(back, 1) == 0) {
		sigset_t none;
		sigemptyset(&none);
		sigsuspend(&none);
	}
	makes(CLOCK_THREAD_CPUTIME_ID, SIGEV_THREAD_ID, gettid());
	set(heard.timer, 3, 3);
	for (int i = 0; i < 30; i++) {
		computes(3 * MS_NS);
		EXPECT_EQ(nanosleep(&nap, NULL), 0);
	}
	return arg;
}

TEST(who_jumped_out_of_a_wait_for_any_signal_sleeps_as_before)
{
	on_thread(sleeps_through, NULL);
}

enum { JUMPS = 40 };

static pthread_t becomes;
static _Atomic bool jumped_all;

static void *signals_on(void *arg)
{
	while (!jumped_all) {
		pthread_kill(becomes, SIGUSR2);
		sched_yield();
	}
	return arg;
}

static void *jumps_out_of_exec(void *arg)
{
	struct sigaction act = { .sa_handler = jumps_back };
	char *none[] = { NULL };
	pthread_t storm;

	becomes = pthread_self();
	for (volatile int i = 0; i < JUMPS; i++) {
		if (sigsetjmp(back, 1) != 0)
			continue;
		if (i == 0) {
			EXPECT_EQ(sigaction(SIGUSR2, &act, NULL), 0);
			start(&storm, 1, signals_on, NULL);
		}
		for (;;)
			FAILS(execve("/none", none, none), ENOENT);
	}
	EXPECT(signal(SIGUSR2, SIG_IGN) != SIG_ERR);
	jumped_all = true;
	join(&storm, 1);
	makes(CLOCK_THREAD_CPUTIME_ID, SIGEV_THREAD_ID, gettid());
	set(heard.timer, 3, 0);
	computes_until(&heard.came, 1);
	return arg;
}

TEST(one_rings_whoever_jumped_out_of_becoming_another_program)
{
	on_thread(jumps_out_of_exec, NULL);
}
