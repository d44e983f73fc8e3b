/* Timers of POSIX and of setitimer: what each form of notice brings and to whom, once or again and
 * again, what was missed, and that it ends; among threads that run and sleep. The same holds
 * natively. Waiting for their signals: sigaction_test; by clocks of cpu time: cpuclock_test. */
#include "event.h"
#include "others.h"

#include <sys/time.h>

enum { VALUE = 4711, SIG = 40 };

static timer_t timer;

static struct {
	struct event came;
	_Atomic int wrong; /* not of that timer, or not there */
	_Atomic int missed, told; /* by the signal, by the timer */
	pthread_t where;
	bool anywhere;
} heard;

static void hears(int sig, siginfo_t *info, void *uc)
{
	(void)uc;
	if (sig != SIG || info->si_code != SI_TIMER || info->si_value.sival_int != VALUE ||
	    (!heard.anywhere && !pthread_equal(pthread_self(), heard.where)))
		heard.wrong++;
	heard.missed += info->si_overrun;
	heard.told += timer_getoverrun(timer);
	tick(&heard.came);
}

static void listens(int flags)
{
	struct sigaction action = { .sa_sigaction = hears, .sa_flags = SA_SIGINFO | flags };

	EXPECT_EQ(sigaction(SIG, &action, NULL), 0);
}

static void makes(clockid_t clock, int notify)
{
	struct sigevent event = { .sigev_notify = notify,
				  .sigev_signo = SIG,
				  .sigev_value.sival_int = VALUE };

	event._sigev_un._tid = gettid();
	EXPECT_EQ(timer_create(clock, &event, &timer), 0);
}

static void sets(long first_us, long every_us)
{
	struct itimerspec spec = { { 0, every_us * US }, { 0, first_us * US } };

	EXPECT_EQ(timer_settime(timer, 0, &spec, NULL), 0);
}

static void is_set(long most_us, long every_us)
{
	struct itimerspec is;

	EXPECT_EQ(timer_gettime(timer, &is), 0);
	EXPECT_EQ(is.it_interval.tv_nsec, every_us * US);
	EXPECT_EQ(is.it_value.tv_sec, 0);
	EXPECT(is.it_value.tv_nsec <= most_us * US);
}

/* Nothing comes any more, when what was on its way is there: of what rings each ms. */
static void is_over(const struct event *came)
{
	int n;

	do {
		n = came->n;
		usleep(8000);
	} while (came->n != n);
}

/* ---- by signal ---- */

static void *rings_once(void *notify)
{
	static const clockid_t clocks[] = { CLOCK_MONOTONIC, CLOCK_REALTIME, CLOCK_BOOTTIME };

	heard.where = pthread_self();
	for (int i = 0; i < 3; i++) {
		long since = now_us();
		makes(clocks[i], (int)(long)notify);
		sets(3000, 0);
		is_set(3000, 0);
		await(&heard.came, i + 1);
		EXPECT(now_us() - since >= 3000);
		is_set(0, 0);
		is_over(&heard.came);
		EXPECT_EQ(heard.came.n, i + 1);
		EXPECT_EQ(timer_delete(timer), 0);
	}
	EXPECT_EQ(heard.wrong, 0);
	EXPECT_EQ(heard.missed, 0);
	EXPECT_EQ(heard.told, 0);
	return NULL;
}

/* How many it heard of is no more than there were. */
static void *rings_often(void *notify)
{
	long since = now_us(), last;

	heard.where = pthread_self();
	makes(CLOCK_MONOTONIC, (int)(long)notify);
	sets(500, 1000);
	await(&heard.came, 10);
	is_set(1000, 1000);
	EXPECT_EQ(timer_delete(timer), 0);
	last = now_us();
	is_over(&heard.came);
	EXPECT(heard.came.n + heard.missed <= (last - since) / 1000 + 1);
	EXPECT_EQ(heard.wrong, 0);
	FAILS(timer_settime(timer, 0, &(struct itimerspec){ 0 }, NULL), EINVAL);
	return NULL;
}

TEST(a_timer_rings_once)
{
	heard.anywhere = true;
	listens(SA_RESTART);
	among_others(rings_once, (void *)SIGEV_SIGNAL);
}

TEST(a_timer_rings_often_until_it_is_deleted)
{
	heard.anywhere = true;
	listens(SA_RESTART);
	among_others(rings_often, (void *)SIGEV_SIGNAL);
}

TEST(a_timer_rings_once_for_one_thread)
{
	listens(SA_RESTART);
	among_others(rings_once, (void *)SIGEV_THREAD_ID);
}

TEST(a_timer_rings_often_for_one_thread)
{
	listens(SA_RESTART);
	among_others(rings_often, (void *)SIGEV_THREAD_ID);
}

static void *is_set_again(void *arg)
{
	struct itimerspec was, past = { .it_value = { 1, 0 } };

	heard.where = pthread_self();
	makes(CLOCK_REALTIME, SIGEV_SIGNAL);
	sets(900000, 0);
	/* In the past, so it rings at once. */
	EXPECT_EQ(timer_settime(timer, TIMER_ABSTIME, &past, &was), 0);
	EXPECT(was.it_value.tv_sec == 0 && was.it_value.tv_nsec > 0 &&
	       was.it_value.tv_nsec <= 900 * MS);
	await(&heard.came, 1);
	sets(900000, 0);
	sets(0, 0);
	is_set(0, 0);
	is_over(&heard.came);
	EXPECT_EQ(heard.came.n, 1);
	EXPECT_EQ(heard.wrong, 0);
	EXPECT_EQ(timer_delete(timer), 0);
	return arg;
}

TEST(a_timer_is_set_anew_and_disarmed)
{
	heard.anywhere = true;
	listens(SA_RESTART);
	among_others(is_set_again, NULL);
}

static void *rings_for_nobody(void *arg)
{
	struct itimerspec is;

	makes(CLOCK_MONOTONIC, SIGEV_NONE);
	sets(1000, 1000);
	do
		is_set(1000, 1000);
	while (timer_gettime(timer, &is) == 0 && is.it_value.tv_nsec > 900 * US);
	EXPECT_EQ(timer_delete(timer), 0);
	EXPECT_EQ(heard.came.n, 0);
	return arg;
}

TEST(a_timer_without_a_notice_is_looked_at)
{
	listens(SA_RESTART);
	among_others(rings_for_nobody, NULL);
}

/* ---- what was missed ---- */

enum { EVERY_MS = 5, AWAY_MS = 62 };

/* Blocked by all: one is pending, and counts the others. */
static void rings_while_blocked(long *since)
{
	makes(CLOCK_MONOTONIC, SIGEV_SIGNAL);
	*since = now_us();
	sets(EVERY_MS * 1000, EVERY_MS * 1000);
	usleep(AWAY_MS * 1000);
}

static void counted_all(int came, int missed, long since)
{
	EXPECT(missed >= AWAY_MS / EVERY_MS / 2);
	EXPECT(came + missed <= (now_us() - since) / (EVERY_MS * 1000));
}

static void *unblocks(void *arg)
{
	long since, then;

	rings_while_blocked(&since);
	EXPECT_EQ(heard.came.n, 0);
	then = now_us();
	mask(SIG_UNBLOCK, SIG);
	/* And those whose time came just then. */
	EXPECT(heard.came.n >= 1);
	EXPECT(heard.came.n <= 2 + (now_us() - then) / (EVERY_MS * 1000));
	mask(SIG_BLOCK, SIG);
	counted_all(heard.came.n, heard.missed, since);
	EXPECT_EQ(heard.told, heard.missed);
	EXPECT_EQ(timer_delete(timer), 0);
	EXPECT_EQ(heard.wrong, 0);
	return arg;
}

static void *waits(void *arg)
{
	siginfo_t info;
	sigset_t set;
	long since;

	sigemptyset(&set);
	sigaddset(&set, SIG);
	rings_while_blocked(&since);
	EXPECT_EQ(sigwaitinfo(&set, &info), SIG);
	EXPECT_EQ(info.si_code, SI_TIMER);
	EXPECT_EQ(info.si_value.sival_int, VALUE);
	counted_all(1, info.si_overrun, since);
	EXPECT_EQ(timer_getoverrun(timer), info.si_overrun);
	EXPECT_EQ(timer_delete(timer), 0);
	EXPECT_EQ(heard.came.n, 0);
	return arg;
}

TEST(a_handler_hears_how_many_it_missed)
{
	heard.anywhere = true;
	listens(SA_RESTART);
	mask(SIG_BLOCK, SIG);
	among_others(unblocks, NULL);
}

TEST(who_waits_beside_a_handler_hears_how_many_he_missed)
{
	listens(SA_RESTART);
	mask(SIG_BLOCK, SIG);
	among_others(waits, NULL);
}

/* ---- by a thread ---- */

static struct event called;
static _Atomic int called_wrong;

static void is_called(union sigval value)
{
	if (value.sival_int != VALUE)
		called_wrong++;
	tick(&called);
}

static void makes_thread(void)
{
	struct sigevent event = { .sigev_notify = SIGEV_THREAD,
				  .sigev_notify_function = is_called,
				  .sigev_value.sival_int = VALUE };

	EXPECT_EQ(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
}

static void *calls_once_and_often(void *arg)
{
	makes_thread();
	sets(3000, 0);
	is_set(3000, 0);
	await(&called, 1);
	is_set(0, 0);
	is_over(&called);
	EXPECT_EQ(called.n, 1);
	EXPECT_EQ(timer_delete(timer), 0);
	makes_thread();
	sets(1000, 1000);
	await(&called, 6);
	EXPECT(timer_getoverrun(timer) >= 0);
	EXPECT_EQ(timer_delete(timer), 0);
	is_over(&called);
	EXPECT_EQ(called_wrong, 0);
	return arg;
}

TEST(a_timer_calls_once_and_often_until_it_is_deleted)
{
	among_others(calls_once_and_often, NULL);
}

/* ---- of the process, by its cpu time ---- */

enum { TICK_MS = 8, BURNT_MS = 80, TICKS = BURNT_MS / TICK_MS };

static _Atomic int ticked;

static void ticks_on(int sig)
{
	(void)sig;
	ticked++;
}

static long used_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec * 1000 + t.tv_nsec / MS;
}

static void burn(long ms)
{
	volatile unsigned x = 1;
	long end = used_ms() + ms;

	while (used_ms() < end)
		for (int i = 0; i < 100000; i++)
			x = x * 1664525 + 1013904223;
}

static void burns_by(__itimer_which_t which, int sig)
{
	struct itimerval often = { { 0, TICK_MS * 1000 }, { 0, TICK_MS * 1000 } }, is;

	ticked = 0;
	handle_with(sig, ticks_on, SA_RESTART);
	EXPECT_EQ(setitimer(which, &often, NULL), 0);
	/* Of no cpu time nothing comes. */
	usleep(3 * TICK_MS * 1000);
	EXPECT(ticked <= 1);
	burn(BURNT_MS);
	EXPECT_EQ(getitimer(which, &is), 0);
	EXPECT_EQ(is.it_interval.tv_usec, TICK_MS * 1000);
	EXPECT_EQ(setitimer(which, &(struct itimerval){ 0 }, &is), 0);
	EXPECT_EQ(is.it_interval.tv_usec, TICK_MS * 1000);
	/* The kernel estimates it by looks at who runs, so on a busy machine it may be far off. */
	EXPECT(ticked >= TICKS / 4);
	EXPECT(ticked <= TICKS * 4);
	ticked = 0;
	burn(3 * TICK_MS);
	EXPECT(ticked <= 1);
}

static void *burns(void *arg)
{
	burns_by(ITIMER_PROF, SIGPROF);
	burns_by(ITIMER_VIRTUAL, SIGVTALRM);
	return arg;
}

TEST(timers_of_the_process_tick_by_its_cpu_time)
{
	pthread_t t;

	start(&t, 1, sleeps_on, NULL);
	on_thread(burns, NULL);
	others_end = true;
	join(&t, 1);
}
