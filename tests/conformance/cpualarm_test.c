/* Timers by the cpu time of a thread, and what else a program does meanwhile: its sleeps, its
 * handlers, calls back into it, threads of the C library's, other programs. */
#include "cputimer.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/time.h>
#include <sys/wait.h>

enum { SIG_ASKS = SIG + 1 };

/* ---- set in its own handler, as watchdogs are ---- */

static void sets_anew(int sig)
{
	int kept = errno;

	(void)sig;
	set(heard.timer, EACH_MS, 0);
	tick(&heard.came);
	errno = kept;
}

static void *is_set_by_its_handler(void *arg)
{
	int64_t before;

	makes(CLOCK_THREAD_CPUTIME_ID, SIGEV_SIGNAL, 0);
	handle_with(SIG, sets_anew, SA_RESTART);
	before = ns_by(CLOCK_THREAD_CPUTIME_ID);
	set(heard.timer, EACH_MS, 0);
	/* Now and then here, too. */
	while (heard.came.n < 4) {
		struct itimerspec is;
		EXPECT_EQ(timer_gettime(heard.timer, &is), 0);
	}
	EXPECT(ns_by(CLOCK_THREAD_CPUTIME_ID) - before >= 4 * EACH_MS * MS_NS);
	EXPECT_EQ(timer_delete(heard.timer), 0);
	return arg;
}

TEST(a_handler_sets_its_timer_anew)
{
	beside_one_that_computes(is_set_by_its_handler, NULL);
}

/* ---- what it does not disturb ---- */

static void hears_plainly(int sig)
{
	(void)sig;
	tick(&heard.came);
}

/* It rings while its thread computes, so no sleep of that one is ended by it, be it some ms late.
 */
static void *computes_and_sleeps(void *arg)
{
	static const struct timespec nap = { 0, 8 * MS_NS };

	makes(CLOCK_THREAD_CPUTIME_ID, SIGEV_SIGNAL, 0);
	handle_with(SIG, hears_plainly, 0);
	for (int i = 0; i < 20; i++) {
		set(heard.timer, 2, 0);
		computes(2 * MS_NS);
		EXPECT_EQ(nanosleep(&nap, NULL), 0);
	}
	computes_until(&heard.came, 1);
	EXPECT_EQ(timer_delete(heard.timer), 0);
	return arg;
}

TEST(it_ends_no_sleep_of_its_own_thread)
{
	on_thread(computes_and_sleeps, NULL);
}

/* But what was blocked until then ends the call that lets it in. */
static void *computes_and_lets_in(void *arg)
{
	static const struct timespec most = { 30, 0 };
	sigset_t none;

	sigemptyset(&none);
	makes(CLOCK_THREAD_CPUTIME_ID, SIGEV_THREAD_ID, gettid());
	handle_with(SIG, hears_plainly, SA_RESTART);
	mask(SIG_BLOCK, SIG);
	for (int i = 1; i <= 3; i++) {
		set(heard.timer, 1, 0);
		computes((int64_t)3 * EACH_MS * MS_NS);
		if (i == 1)
			FAILS(sigsuspend(&none), EINTR);
		else if (i == 2)
			FAILS(ppoll(NULL, 0, &most, &none), EINTR);
		else
			FAILS(pselect(0, NULL, NULL, NULL, &most, &none), EINTR);
		EXPECT_EQ(heard.came.n, i);
	}
	EXPECT_EQ(timer_delete(heard.timer), 0);
	return arg;
}

TEST(it_ends_a_call_that_lets_it_in)
{
	on_thread(computes_and_lets_in, NULL);
}

static int64_t own_of_hog;

static void *computes_and_tells(void *arg)
{
	int64_t before = ns_by(CLOCK_THREAD_CPUTIME_ID);

	computes((int64_t)300 * MS_NS);
	own_of_hog = ns_by(CLOCK_THREAD_CPUTIME_ID) - before;
	return arg;
}

static void *sets_and_sleeps(void *arg)
{
	struct itimerspec soon = { .it_value = { 0, 50 * 1000 } };
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIG };
	timer_t timer;

	EXPECT_EQ(timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer), 0);
	EXPECT_EQ(timer_settime(timer, 0, &soon, NULL), 0);
	return sleeps_until_over(arg);
}

/* Timers with little left, of threads that sleep or have ended: nobody looks at them all the time.
 */
TEST(who_waits_for_time_that_does_not_pass_uses_none)
{
	enum { SLEEPERS = 8 };
	pthread_t t[SLEEPERS], ended;
	int64_t before;

	start(&ended, 1, sleeps_until_over, NULL);
	makes(clock_of(ended), SIGEV_SIGNAL, 0);
	set(heard.timer, 1, 0);
	tick(&over);
	join(&ended, 1);
	over.n = 0;
	start(t, SLEEPERS, sets_and_sleeps, NULL);
	settle();
	before = ns_by(CLOCK_PROCESS_CPUTIME_ID);
	on_thread(computes_and_tells, NULL);
	EXPECT(ns_by(CLOCK_PROCESS_CPUTIME_ID) - before < own_of_hog + own_of_hog / 10);
	tick(&over);
	join(t, SLEEPERS);
}

/* ---- when it is due at a bad time ---- */

/* In a call, of which nobody but the kernel knows what it uses; then the thread sleeps. */
static void *is_due_in_a_call(void *arg)
{
	enum { MANY = 24 << 20 };
	char *room = malloc(MANY);
	int fd = open("/dev/urandom", O_RDONLY);

	makes(CLOCK_THREAD_CPUTIME_ID, SIGEV_SIGNAL, 0);
	for (int i = 1; i <= 5; i++) {
		set(heard.timer, EACH_MS, 0);
		for (long at = 0, n = 1; n > 0 && at < MANY; at += n)
			n = read(fd, room + at, (size_t)(MANY - at));
		await(&heard.came, i);
	}
	EXPECT_EQ(timer_delete(heard.timer), 0);
	close(fd);
	free(room);
	return arg;
}

TEST(one_that_is_due_in_a_long_call_rings_though_its_thread_sleeps)
{
	heard.anywhere = true;
	on_thread(is_due_in_a_call, NULL);
}

/* So many of the user's are pending. */
static unsigned long queued(void)
{
	FILE *f = fopen("/proc/self/status", "r");
	unsigned long n = 0;
	char line[200];

	while (f && fgets(line, sizeof(line), f) && sscanf(line, "SigQ: %lu", &n) != 1)
		continue;
	if (f)
		fclose(f);
	return n;
}

/* Its place is its own from the first. */
static void *rings_beside_a_full_queue(void *arg)
{
	union sigval value = { 0 };
	struct rlimit few;
	int r = 0;

	heard.where = pthread_self();
	makes(CLOCK_THREAD_CPUTIME_ID, SIGEV_THREAD_ID, gettid());
	mask(SIG_BLOCK, SIG_ASKS);
	few.rlim_cur = few.rlim_max = queued() + 200;
	EXPECT_EQ(setrlimit(RLIMIT_SIGPENDING, &few), 0);
	while (r == 0)
		r = pthread_sigqueue(pthread_self(), SIG_ASKS, value);
	EXPECT_EQ(r, EAGAIN);
	set(heard.timer, EACH_MS, 0);
	computes_until(&heard.came, 1);
	EXPECT_EQ(heard.wrong, 0);
	return arg;
}

TEST(one_rings_where_no_more_signals_may_be_queued)
{
	on_thread(rings_beside_a_full_queue, NULL);
}

/* ---- within handlers and calls that others make ---- */

static struct event asked;

static void asks(int sig)
{
	struct itimerspec is;
	int kept = errno;

	(void)sig;
	EXPECT_EQ(timer_gettime(heard.timer, &is), 0);
	tick(&asked);
	errno = kept;
}

/* By another timer, whose signals find this thread in the midst of the same call. */
static timer_t beside;

static void handlers_run(int notify)
{
	struct sigevent event = { .sigev_notify = notify, .sigev_signo = SIG_ASKS };
	struct itimerspec often = { { 0, 50 * 1000 }, { 0, 50 * 1000 } };

	handle_with(SIG_ASKS, asks, SA_RESTART);
	mask(SIG_UNBLOCK, SIG_ASKS);
	event._sigev_un._tid = gettid();
	asked.n = 0;
	EXPECT_EQ(timer_create(CLOCK_MONOTONIC, &event, &beside), 0);
	EXPECT_EQ(timer_settime(beside, 0, &often, NULL), 0);
}

static void asks_beside_them(void)
{
	struct itimerspec is;

	while (asked.n < 1000)
		EXPECT_EQ(timer_gettime(heard.timer, &is), 0);
}

static void asks_beside_handlers(void)
{
	handlers_run(SIGEV_THREAD_ID);
	asks_beside_them();
	EXPECT_EQ(timer_delete(beside), 0);
}

static int asks_when_closed(void *cookie)
{
	(void)cookie;
	asks_beside_them();
	return 0;
}

/* Called back by fclose. By another thread's clock, of which the answer needs nothing of this
 * one's. */
static void *asks_in_a_call(void *its)
{
	cookie_io_functions_t io = { .close = asks_when_closed };

	makes(clock_of(*(pthread_t *)its), SIGEV_NONE, 0);
	handlers_run(SIGEV_SIGNAL);
	EXPECT_EQ(fclose(fopencookie(NULL, "w", io)), 0);
	EXPECT_EQ(timer_delete(beside), 0);
	EXPECT_EQ(timer_delete(heard.timer), 0);
	return NULL;
}

/* The signal is the process's: for one thread it would keep that on its kernel thread. */
TEST(a_handler_asks_while_its_thread_asks)
{
	pthread_t self = pthread_self();

	mask(SIG_BLOCK, SIG_ASKS);
	on_thread(asks_in_a_call, &self);
}

static void *forks_one_that_asks(void *arg)
{
	pid_t pid;

	makes(CLOCK_THREAD_CPUTIME_ID, SIGEV_NONE, 0);
	pid = fork();
	if (pid == 0) {
		makes(CLOCK_THREAD_CPUTIME_ID, SIGEV_NONE, 0);
		asks_beside_handlers();
		_exit(0);
	}
	EXPECT_EQ(status_of(pid), 0);
	EXPECT_EQ(timer_delete(heard.timer), 0);
	return arg;
}

TEST(a_handler_asks_in_a_child)
{
	on_thread(forks_one_that_asks, NULL);
}

static void is_called(union sigval value)
{
	(void)value;
	asks_beside_handlers();
	EXPECT_EQ(syscall(SYS_timer_delete, (int)(intptr_t)heard.timer), 0);
	tick(&over);
}

static void *is_asked_by_another(void *arg)
{
	struct sigevent calls = { .sigev_notify = SIGEV_THREAD,
				  .sigev_notify_function = is_called };
	struct itimerspec soon = spec_of(1, 0), is;
	timer_t timer;

	makes(CLOCK_THREAD_CPUTIME_ID, SIGEV_NONE, 0);
	EXPECT_EQ(timer_create(CLOCK_MONOTONIC, &calls, &timer), 0);
	EXPECT_EQ(timer_settime(timer, 0, &soon, NULL), 0);
	await(&over, 1);
	FAILS(timer_gettime(heard.timer, &is), EINVAL);
	EXPECT_EQ(timer_delete(timer), 0);
	return arg;
}

/* Which is no thread that the program has made. */
TEST(a_handler_asks_on_a_thread_of_a_timer)
{
	on_thread(is_asked_by_another, NULL);
}

/* ---- becoming another program ---- */

static void *becomes(void *arg)
{
	struct itimerspec often = { { 0, 300 * 1000 }, { 0, 300 * 1000 } };

	makes(CLOCK_THREAD_CPUTIME_ID, SIGEV_THREAD_ID, gettid());
	heard.where = pthread_self();
	EXPECT_EQ(timer_settime(heard.timer, 0, &often, NULL), 0);
	computes(2 * MS_NS);
	execl("/bin/true", "true", NULL);
	_exit(9);
	return arg;
}

/* What was on its way to this one does not end that. */
TEST(another_program_hears_nothing_of_it)
{
	for (int i = 0; i < 20; i++) {
		pid_t pid = fork();
		if (pid == 0) {
			on_thread(becomes, NULL);
			_exit(8);
		}
		EXPECT_EQ(status_of(pid), 0);
	}
}
