/* Timers by the cpu time of threads. Sysmon looks when one may be due, and the thread that is kept
 * for signals makes sure by the timer's own clock and sends its signal, under the lock of all of
 * them: so nothing rings after its timer was deleted. who sets: alarm, then looks when sysmon will
 * wake     sysmon: says when, then looks at the alarms one of the two sees the other. */
#include "cputimer.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cpuclock.h"
#include "guard.h"
#include "os.h"
#include "preempt.h"
#include "signals.h"
#include "syscall.h"
#include "thread.h"
#include "user.h"

enum { SECOND_NS = 1000 * 1000 * 1000, NONE = -1 };

static const uint64_t most_ns = INT64_MAX;

/* A thread, whose record may be another's by now; or a kernel thread that is none of ours. */
struct who {
	struct thread *t;
	pid_t tid;
};

struct cputimer {
	struct cputimer *next; /* of all that there were; never taken off */
	ATOMIC(int) number; /* NONE: it is free */

	/* Under the lock. */
	struct who of, to;
	clockid_t clock;
	int notify, sig;
	union sigval value;
	uint64_t at, every; /* by that clock; at 0: it is not set */
	uint64_t missed; /* since its signal became pending with the kernel */

	/* What sysmon looks at: the cpu time of gp at which it may be due; 0: never. */
	ATOMIC(struct g *) gp;
	ATOMIC(uint64_t) alarm;
	ATOMIC(uint32_t) sets; /* how often there was another */

	/* Sysmon's: of the alarm of seen: before until gp cannot have used so much. */
	uint32_t seen;
	uint64_t until;
};

static ATOMIC(struct cputimer *) all;
static ATOMIC(uint32_t) guard;
static ATOMIC(bool) due;

/* A handler may set its timer anew. */
static void enter(void)
{
	ghold();
	guard_lock(&guard);
}

static void leave(void)
{
	guard_unlock(&guard);
	gunhold();
}

static bool lives(const struct who *who)
{
	return who->t && who->t->tid == who->tid && !(ld_acq(&who->t->life) & FINISHED);
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
static struct cputimer *numbered(int number)
{
	struct cputimer *c = ld_acq(&all);

	if (likely(!c) || number == NONE)
		return NULL;
	enter();
	while (c && ld_rlx(&c->number) != number)
		c = c->next;
	if (!c)
		leave();
	return c;
}

/* ---- when ---- */

/* It is now by its clock. What that can go on by is no more than all that its thread uses. */
static void watch(struct cputimer *c, uint64_t now)
{
	struct g *gp;
	uint64_t left;

	st_sc(&c->alarm, 0);
	if (c->at == 0 || c->notify == SIGEV_NONE)
		return;
	gp = c->of.t->gp;
	left = c->at > now ? c->at - now : 0;
	st_rlx(&c->gp, gp);
	/* Releases: pair with the acquires in cputimers_look. */
	st_rel(&c->sets, ld_rlx(&c->sets) + 1);
	st_sc(&c->alarm, gcputime(gp) + left);
	core_clocked(nanotime() + left);
}

uint64_t cputimers_look(uint64_t now)
{
	uint64_t next = 0;

	for (struct cputimer *c = ld_acq(&all); c; c = c->next) {
		uint32_t sets = ld_acq(&c->sets);
		uint64_t alarm = ld_sc(&c->alarm), used;

		if (alarm == 0)
			continue;
		if (c->seen != sets) {
			c->seen = sets;
			c->until = 0;
		}
		if (now >= c->until) {
			used = gcputime(ld_rlx(&c->gp));
			if (used >= alarm) {
				if (cas_sc(&c->alarm, alarm, 0)) {
					/* Release: pairs with the acquire in cputimers_ring. */
					st_rel(&due, true);
					core_sigdefer();
				}
				continue;
			}
			c->until = now + (alarm - used);
		}
		if (next == 0 || c->until < next)
			next = c->until;
	}
	return next;
}

/* ---- what it brings ---- */

/* All signals are blocked here, so these are those of the process. */
static bool kernel_has(int sig)
{
	uint64_t set = 0;

	arch_syscall3(SYS_rt_sigpending, (long)&set, SIGSET_BYTES, 0);
	return (set & signal_bit(sig)) != 0;
}

/* It is due, and was so often before that nobody looked. */
static void tell(struct cputimer *c, uint64_t before)
{
	uint64_t missed = c->missed + before;
	siginfo_t info;

	siginfo_make(&info, c->sig, SI_TIMER);
	info.si_timerid = ld_rlx(&c->number);
	info.si_overrun = (int)(missed < INT_MAX ? missed : INT_MAX);
	info.si_value = c->value;
	c->missed = 0;
	if (c->notify != SIGEV_THREAD_ID) {
		/* As the kernel has it: it prefers whose time it is. */
		if (signal_for(lives(&c->of) ? c->of.t : NULL, c->sig, &info))
			return;
		/* And one is pending at most. */
		if (kernel_has(c->sig))
			c->missed = missed + 1;
		else
			signal_return(c->sig, &info);
	} else if (!c->to.t) {
		arch_syscall4(SYS_rt_tgsigqueueinfo, getpid(), c->to.tid, c->sig, (long)&info);
	} else if (lives(&c->to)) {
		signal_thread(c->to.t, c->sig, &info);
	}
}

/* The first of the times at or after now, which is one of those that it rings at. */
static uint64_t times_since(const struct cputimer *c, uint64_t now)
{
	return c->every ? (now - c->at) / c->every : 0;
}

static void ring(struct cputimer *c)
{
	uint64_t now, missed;

	if (!lives(&c->of)) {
		c->at = 0;
		return;
	}
	now = cpu_clock(c->of.t, c->clock);
	if (now >= c->at) {
		missed = times_since(c, now);
		c->at = c->every ? c->at + (missed + 1) * c->every : 0;
		tell(c, missed);
	}
	watch(c, now);
}

void cputimers_ring(void)
{
	if (likely(!ld_acq(&due)) || !xchg_acq(&due, false))
		return;
	for (struct cputimer *c = ld_acq(&all); c; c = c->next) {
		enter();
		if (ld_rlx(&c->number) != NONE && c->at != 0 && ld_rlx(&c->alarm) == 0 &&
		    c->notify != SIGEV_NONE)
			ring(c);
		leave();
	}
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

/* A free one, locked; NULL without memory. */
static struct cputimer *get(void)
{
	struct cputimer *c;

	enter();
	for (c = ld_acq(&all); c; c = c->next)
		if (ld_rlx(&c->number) == NONE)
			return c;
	c = os_reserve(sizeof(*c));
	if (os_failed(c)) {
		leave();
		return NULL;
	}
	st_rlx(&c->number, NONE);
	c->next = ld_rlx(&all);
	/* Release: pairs with the acquires of all that walk them. */
	st_rel(&all, c);
	return c;
}

long cputimer_create(struct thread *of, clockid_t clock, const struct sigevent *event)
{
	static const struct sigevent as_ever = { .sigev_notify = SIGEV_SIGNAL,
						 .sigev_signo = SIGALRM },
				     never = { .sigev_notify = SIGEV_NONE };
	const struct sigevent *brings = event ? event : &as_ever;
	struct who to = { NULL, 0 };
	struct cputimer *c;
	int number;
	long r = make_out(brings, &to);

	if (r == 0)
		r = arch_syscall3(SYS_timer_create, CLOCK_MONOTONIC, (long)&never, (long)&number);
	if (r < 0)
		return r;
	c = get();
	if (!c) {
		arch_syscall3(SYS_timer_delete, number, 0, 0);
		return -EAGAIN;
	}
	c->of = (struct who){ of, of->tid };
	c->to = to;
	c->clock = clock;
	c->notify = brings->sigev_notify;
	c->sig = brings->sigev_signo;
	c->value = brings->sigev_value;
	if (!event)
		c->value.sival_int = number;
	c->at = c->every = c->missed = 0;
	st_rlx(&c->number, number);
	leave();
	return number;
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

bool cputimer_settime(int number, int flags, const struct itimerspec *to, struct itimerspec *was,
		      long *r)
{
	struct cputimer *c = numbered(number);
	struct itimerspec set, is;
	uint64_t now;

	if (likely(!c))
		return false;
	if (!to || user_fetch(&set, to, sizeof(set)) != 0) {
		*r = to ? -EFAULT : -EINVAL;
	} else if (!is_time(set.it_value) || !is_time(set.it_interval)) {
		*r = -EINVAL;
	} else if (!lives(&c->of)) {
		*r = -ESRCH;
	} else {
		now = cpu_clock(c->of.t, c->clock);
		is = setting(c, now);
		c->every = ns_of(set.it_interval);
		c->at = ns_of(set.it_value);
		if (c->at != 0 && !(flags & TIMER_ABSTIME))
			c->at = c->at < most_ns - now ? now + c->at : most_ns;
		c->missed = 0;
		watch(c, now);
		*r = was ? user_store(was, &is, sizeof(is)) : 0;
	}
	leave();
	return true;
}

bool cputimer_gettime(int number, struct itimerspec *to, long *r)
{
	struct cputimer *c = numbered(number);
	struct itimerspec is = { 0 };

	if (likely(!c))
		return false;
	if (lives(&c->of))
		is = setting(c, cpu_clock(c->of.t, c->clock));
	else
		is.it_interval = timespec_of(c->every);
	leave();
	*r = user_store(to, &is, sizeof(is));
	return true;
}

void cputimer_deletes(int number)
{
	struct cputimer *c = numbered(number);

	if (likely(!c))
		return;
	st_sc(&c->alarm, 0);
	c->at = 0;
	st_rlx(&c->number, NONE);
	leave();
}

void cputimers_forked(void)
{
	for (struct cputimer *c = ld_rlx(&all); c; c = c->next) {
		st_rlx(&c->alarm, 0);
		st_rlx(&c->number, NONE);
		c->at = 0;
	}
	st_rlx(&due, false);
}
