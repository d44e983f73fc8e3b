/* Timers by the cpu time of a thread: threads that use some, a timer, and what is heard of it. */
#ifndef CONFORMANCE_CPUTIMER_H
#define CONFORMANCE_CPUTIMER_H

#include "event.h"

enum { VALUE = 4711, SIG = 40, MS_NS = 1000 * 1000, EACH_MS = 20 };

static inline int64_t ns_by(clockid_t clock)
{
	struct timespec t;

	EXPECT_EQ(clock_gettime(clock, &t), 0);
	return (int64_t)t.tv_sec * 1000 * MS_NS + t.tv_nsec;
}

static inline clockid_t clock_of(pthread_t t)
{
	clockid_t clock;

	EXPECT_EQ(pthread_getcpuclockid(t, &clock), 0);
	return clock;
}

static inline struct itimerspec spec_of(long first_ms, long every_ms)
{
	return (struct itimerspec){ { 0, every_ms * MS_NS }, { 0, first_ms * MS_NS } };
}

static inline void set(timer_t timer, long first_ms, long every_ms)
{
	struct itimerspec spec = spec_of(first_ms, every_ms);

	EXPECT_EQ(timer_settime(timer, 0, &spec, NULL), 0);
}

/* ---- who computes, until it has used so much or the event has come to n ---- */

static inline void computes(int64_t ns)
{
	int64_t end = ns_by(CLOCK_THREAD_CPUTIME_ID) + ns;

	while (ns_by(CLOCK_THREAD_CPUTIME_ID) < end)
		for (volatile int i = 0; i < 10000; i++)
			continue;
}

static inline void computes_until(struct event *e, int n)
{
	while (e->n < n)
		for (volatile int i = 0; i < 10000; i++)
			continue;
}

static struct event over;

static inline void *computes_on(void *arg)
{
	computes_until(&over, 1);
	return arg;
}

static inline void *sleeps_until_over(void *arg)
{
	await(&over, 1);
	return arg;
}

/* ---- what is heard ---- */

static struct {
	struct event came;
	_Atomic int wrong, missed, told;
	pthread_t where;
	bool anywhere;
	timer_t timer;
} heard;

static inline void hears(int sig, siginfo_t *info, void *uc)
{
	(void)uc;
	if (sig != SIG || info->si_code != SI_TIMER || info->si_value.sival_int != VALUE ||
	    (!heard.anywhere && !pthread_equal(pthread_self(), heard.where)))
		heard.wrong++;
	heard.missed += info->si_overrun;
	heard.told += timer_getoverrun(heard.timer);
	tick(&heard.came);
}

static inline void makes(clockid_t clock, int notify, pid_t tid)
{
	struct sigaction action = { .sa_sigaction = hears, .sa_flags = SA_SIGINFO | SA_RESTART };
	struct sigevent event = { .sigev_notify = notify,
				  .sigev_signo = SIG,
				  .sigev_value.sival_int = VALUE };

	event._sigev_un._tid = tid;
	EXPECT_EQ(sigaction(SIG, &action, NULL), 0);
	EXPECT_EQ(timer_create(clock, &event, &heard.timer), 0);
}

static inline void beside_one_that_computes(void *(*fn)(void *), void *arg)
{
	pthread_t hog;

	start(&hog, 1, computes_on, NULL);
	on_thread(fn, arg);
	tick(&over);
	join(&hog, 1);
}

#endif
