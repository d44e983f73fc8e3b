/* Timers by the cpu time of threads: the calls, and the records, which are all under one lock.
 * Next: cpualarm.c, when they ring. */
#include "cputimer.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cpualarm.h"
#include "cpuclock.h"
#include "early.h"
#include "guard.h"
#include "keep.h"
#include "os.h"
#include "preempt.h"
#include "signals.h"
#include "syscall.h"
#include "thread.h"
#include "user.h"

enum { SECOND_NS = 1000 * 1000 * 1000 };

static const uint64_t most_ns = INT64_MAX;

ATOMIC(struct cputimer *) cputimers;
static ATOMIC(uint32_t) guard;

/* A handler may set its timer anew. */
uint64_t cputimers_enter(void)
{
	uint64_t mask = 0;

	if (gself())
		ghold();
	else
		mask = os_sigmask(~(uint64_t)0);
	guard_lock(&guard);
	return mask;
}

void cputimers_leave(uint64_t mask)
{
	guard_unlock(&guard);
	if (gself())
		gunhold();
	else
		os_sigmask(mask);
}

static uint64_t ns_of(struct timespec t)
{
	return (uint64_t)t.tv_sec < most_ns / SECOND_NS
		       ? (uint64_t)t.tv_sec * SECOND_NS + (uint64_t)t.tv_nsec
		       : most_ns;
}

static struct timespec timespec_of(uint64_t ns)
{
	struct timespec t = { .tv_sec = (time_t)(ns / SECOND_NS),
			      .tv_nsec = (long)(ns % SECOND_NS) };
	return t;
}

static bool is_time(struct timespec t)
{
	return t.tv_sec >= 0 && t.tv_nsec >= 0 && t.tv_nsec < SECOND_NS;
}

/* Locked on return, if there is one. */
static struct cputimer *numbered(int number, uint64_t *mask)
{
	struct cputimer *c;

	/* Nearly all are the kernel's. */
	if (likely(!cputimer_find(number)))
		return NULL;
	*mask = cputimers_enter();
	c = cputimer_find(number);
	if (!c)
		cputimers_leave(*mask);
	return c;
}

/* ---- the calls ---- */

static long make_out(const struct sigevent *event, struct who *to)
{
	switch (event->sigev_notify) {
	case SIGEV_NONE:
		return 0;
	case SIGEV_THREAD_ID:
		*to = (struct who){ thread_numbered(event->_sigev_un._tid), event->_sigev_un._tid };
		if (!to->t &&
		    (to->tid <= 0 || arch_syscall3(SYS_tgkill, getpid(), to->tid, 0) != 0))
			return -EINVAL;
		break;
	/* glibc begins threads for it, and asks the kernel for another. */
	case SIGEV_THREAD:
	case SIGEV_SIGNAL:
		break;
	default:
		return -EINVAL;
	}
	return event->sigev_signo > 0 && event->sigev_signo < SIGNALS ? 0 : -EINVAL;
}

/* A free one; NULL without memory. Locked. */
static struct cputimer *get(void)
{
	struct cputimer *c;

	for (c = ld_acq(&cputimers); c; c = c->next)
		if (ld_rlx(&c->number) == NONE)
			return c;
	c = keep(sizeof(*c));
	if (os_failed(c))
		return NULL;
	st_rlx(&c->number, NONE);
	c->next = ld_rlx(&cputimers);
	/* Release: pairs with the acquires of all that walk them. */
	st_rel(&cputimers, c);
	return c;
}

long cputimer_create(struct thread *of, clockid_t clock, const struct sigevent *event)
{
	static const struct sigevent as_ever = { .sigev_notify = SIGEV_SIGNAL,
						 .sigev_signo = SIGALRM },
				     never = { .sigev_notify = SIGEV_NONE };
	const struct sigevent *brings = event ? event : &as_ever;
	struct who to = { NULL, 0 }, whose = { of, cpu_tid(clock) };
	struct cputimer *c = NULL;
	uint64_t mask;
	int number;
	long r = make_out(brings, &to);

	if (r == 0)
		r = arch_syscall3(SYS_timer_create, CLOCK_MONOTONIC, (long)&never, (long)&number);
	if (r < 0)
		return r;
	if (whose.tid == 0)
		whose.tid = of->tid;
	mask = cputimers_enter();
	/* It may have ended since it was found by its number. */
	r = who_lives(&whose) ? -EAGAIN : -EINVAL;
	if (r == -EAGAIN)
		c = get();
	if (c) {
		c->of = whose;
		c->to = to;
		c->clock = clock;
		c->notify = brings->sigev_notify;
		c->sig = brings->sigev_signo;
		c->value = brings->sigev_value;
		if (!event)
			c->value.sival_int = number;
		c->at = c->every = 0;
		st_rlx(&c->missed, 0);
		st_rlx(&c->given, false);
		/* Release: pairs with the acquire in find. */
		st_rel(&c->number, number);
		r = number;
	}
	cputimers_leave(mask);
	if (!c)
		arch_syscall3(SYS_timer_delete, number, 0, 0);
	return r;
}

static struct itimerspec setting(const struct cputimer *c, uint64_t now)
{
	struct itimerspec is = { .it_interval = timespec_of(c->every) };
	uint64_t at = c->at;

	/* Nobody has it go on. */
	if (at != 0 && c->notify == SIGEV_NONE && now >= at)
		at = c->every ? at + (times_since(c, now) + 1) * c->every : 0;
	if (at != 0)
		is.it_value = timespec_of(at > now ? at - now : 1);
	return is;
}

static long set(struct cputimer *c, int flags, const struct itimerspec *to, struct itimerspec *was)
{
	uint64_t now;

	if (!who_lives(&c->of))
		return -ESRCH;
	now = cpu_clock(c->of.t, c->clock);
	*was = setting(c, now);
	c->at = ns_of(to->it_value);
	c->every = c->at != 0 ? ns_of(to->it_interval) : 0;
	if (c->at != 0 && !(flags & TIMER_ABSTIME))
		c->at = c->at < most_ns - now ? now + c->at : most_ns;
	st_sc(&c->missed, 0);
	cputimer_watch(c, now, 0);
	return 0;
}

/* The program's memory is looked at while nothing is locked, for a handler of its may have to see
 * to that. */
bool cputimer_settime(int number, int flags, const struct itimerspec *to, struct itimerspec *was,
		      long *r)
{
	struct itimerspec want, is;
	struct cputimer *c;
	uint64_t mask;

	if (likely(!cputimer_find(number)))
		return false;
	*r = !to ? -EINVAL : user_fetch(&want, to, sizeof(want));
	if (*r == 0 && (!is_time(want.it_value) || !is_time(want.it_interval)))
		*r = -EINVAL;
	if (*r != 0)
		return true;
	c = numbered(number, &mask);
	if (!c)
		return false;
	*r = set(c, flags, &want, &is);
	cputimers_leave(mask);
	if (*r == 0 && was)
		*r = user_store(was, &is, sizeof(is));
	return true;
}

bool cputimer_gettime(int number, struct itimerspec *to, long *r)
{
	uint64_t mask;
	struct cputimer *c = numbered(number, &mask);
	struct itimerspec is = { 0 };

	if (likely(!c))
		return false;
	if (who_lives(&c->of))
		is = setting(c, cpu_clock(c->of.t, c->clock));
	cputimers_leave(mask);
	*r = user_store(to, &is, sizeof(is));
	return true;
}

void cputimer_deletes(int number)
{
	uint64_t mask;
	struct cputimer *c = numbered(number, &mask);

	if (likely(!c))
		return;
	st_sc(&c->alarm, 0);
	c->at = 0;
	st_rlx(&c->number, NONE);
	cputimers_leave(mask);
}

FORKS void cputimers_forked(void)
{
	for (struct cputimer *c = ld_rlx(&cputimers); c; c = c->next) {
		st_rlx(&c->alarm, 0);
		st_rlx(&c->number, NONE);
		c->at = 0;
	}
	cpualarm_forked();
}
