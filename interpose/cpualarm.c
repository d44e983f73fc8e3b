/* When timers by the cpu time of threads ring. Sysmon looks when one may be due, and the thread
 * that is kept for signals makes sure by the timer's own clock and sends its signal, under the lock
 * of all of them: so nothing rings after its timer was deleted, nor for whoever has the record of
 * a thread next, who gets his number under that lock.
 *   who sets: the alarm, then looks when sysmon will wake
 *   sysmon:   says when, then looks at the alarms
 * One of the two sees the other. */
#include "cpualarm.h"

#include <limits.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core.h"
#include "cpuclock.h"
#include "cputimer.h"
#include "early.h"
#include "os.h"
#include "preempt.h"
#include "signals.h"
#include "syscall.h"

/* So often sysmon looks at most, while the thread computes, and while it does not. The kernel looks
 * each tick. */
enum { LOOK_NS = 250 * 1000, TICK_NS = 4 * 1000 * 1000 };

FORKED static ATOMIC(bool) due;

/* None rings while a thread becomes another program, which has none: by a nudge that is pending
 * then it would be killed.
 *   it: stopped, then awaits ringing to end     who rings: ringing, then looks at stopped
 * so one of the two sees the other. */
FORKED static ATOMIC(uint32_t) stopped;
FORKED static ATOMIC(bool) ringing;

/* ---- when ---- */

/* What its clock can go on by is no more than all that its thread uses. */
void cputimer_watch(struct cputimer *c, uint64_t now, uint64_t least)
{
	struct g *gp;
	uint64_t left;

	st_sc(&c->alarm, 0);
	if (c->at == 0 || c->notify == SIGEV_NONE)
		return;
	gp = c->of.t->gp;
	left = c->at > now ? c->at - now : 0;
	left = left > least ? left : least;
	st_rlx(&c->gp, gp);
	/* Releases: pair with the acquires in cputimers_look. */
	st_rel(&c->sets, ld_rlx(&c->sets) + 1);
	st_sc(&c->alarm, gcputime(gp) + left);
	core_clocked(nanotime() + left);
}

/* It may be due. Release: pairs with the acquire in cputimers_ring. */
static void is_due(struct cputimer *c, uint64_t alarm)
{
	if (!cas_sc(&c->alarm, alarm, 0))
		return;
	st_rel(&due, true);
	core_sigdefer();
}

static void look(struct cputimer *c, uint64_t alarm, uint64_t now)
{
	uint64_t used = gcputime(ld_rlx(&c->gp)), wait = alarm - used, least;

	if (used >= alarm) {
		is_due(c, alarm);
		return;
	}
	/* A dead one has used what it will. */
	if (used == c->used && gdead(ld_rlx(&c->gp))) {
		is_due(c, alarm);
		return;
	}
	c->goeson = used != c->used;
	c->used = used;
	least = c->goeson ? LOOK_NS : TICK_NS;
	c->until = now + (wait > least ? wait : least);
}

uint64_t cputimers_look(uint64_t now, bool idle)
{
	uint64_t next = 0;

	for (struct cputimer *c = ld_acq(&cputimers); c; c = c->next) {
		uint32_t sets = ld_acq(&c->sets);
		uint64_t alarm = ld_sc(&c->alarm);

		if (alarm == 0)
			continue;
		if (c->seen != sets) {
			c->seen = sets;
			c->until = c->used = 0;
		}
		if (now >= c->until)
			look(c, alarm, now);
		/* Who is in a call without a P may go on there. */
		if (ld_rlx(&c->alarm) != 0 && (!idle || c->goeson) &&
		    (next == 0 || c->until < next))
			next = c->until;
	}
	return next;
}

/* ---- what it brings ---- */

/* As the kernel counts. */
static int at_most(uint64_t overruns)
{
	return overruns < INT_MAX ? (int)overruns : INT_MAX;
}

/* All signals are blocked here, so these are those of the process. */
static bool kernel_has(int sig)
{
	uint64_t set = 0;

	arch_syscall3(SYS_rt_sigpending, (long)&set, SIGSET_BYTES, 0);
	return (set & signal_bit(sig)) != 0;
}

/* For the process: as the kernel has it, rather for whose time it is. It has one pending at most;
 * who has read it from a signalfd was not seen to. */
static void tell_process(struct cputimer *c, siginfo_t *info, uint32_t missed)
{
	if (signal_timer(who_lives(&c->of) ? c->of.t : NULL, c->sig, info))
		return;
	if (ld_sc(&c->given) && kernel_has(c->sig)) {
		add_sc(&c->missed, missed + 1);
		return;
	}
	st_sc(&c->given, true);
	signal_return(c->sig, info);
}

bool cputimer_own(const struct thread *t, const siginfo_t *info)
{
	struct cputimer *c = info->si_code == SI_TIMER ? cputimer_find(info->si_timerid) : NULL;

	return c && c->of.t == t && c->of.tid == t->tid;
}

void cputimer_taken(siginfo_t *info)
{
	struct cputimer *c = cputimer_find(info->si_timerid);

	if (likely(!c) || !ld_sc(&c->given))
		return;
	st_sc(&c->given, false);
	info->si_overrun = at_most((uint64_t)(uint32_t)info->si_overrun + xchg_sc(&c->missed, 0));
}

/* It is due, and was so often before that nobody looked. */
static void tell(struct cputimer *c, uint64_t before)
{
	uint32_t missed = (uint32_t)at_most(before + xchg_sc(&c->missed, 0));
	siginfo_t info;

	siginfo_make(&info, c->sig, SI_TIMER);
	info.si_timerid = ld_rlx(&c->number);
	info.si_overrun = (int)missed;
	info.si_value = c->value;
	if (c->notify != SIGEV_THREAD_ID)
		tell_process(c, &info, missed);
	else if (!c->to.t)
		arch_syscall4(SYS_rt_tgsigqueueinfo, getpid(), c->to.tid, c->sig, (long)&info);
	else if (who_lives(&c->to))
		signal_thread(c->to.t, c->sig, &info);
}

static void ring(struct cputimer *c)
{
	uint64_t now, missed;

	if (!who_lives(&c->of)) {
		c->at = 0;
		return;
	}
	now = cpu_clock(c->of.t, c->clock);
	if (now >= c->at) {
		missed = times_since(c, now);
		c->at = c->every ? c->at + (missed + 1) * c->every : 0;
		tell(c, missed);
		cputimer_watch(c, now, 0);
	} else {
		/* That clock tells of a part of what it uses. */
		cputimer_watch(c, now, LOOK_NS);
	}
}

static void ring_all(void)
{
	for (struct cputimer *c = ld_acq(&cputimers); c; c = c->next) {
		uint64_t mask = cputimers_enter();
		if (ld_rlx(&c->number) != NONE && c->at != 0 && ld_rlx(&c->alarm) == 0 &&
		    c->notify != SIGEV_NONE)
			ring(c);
		cputimers_leave(mask);
	}
}

void cputimers_ring(void)
{
	if (likely(!ld_acq(&due)))
		return;
	st_sc(&ringing, true);
	if (ld_sc(&stopped) == 0 && xchg_acq(&due, false))
		ring_all();
	/* Release: pairs with the acquire in cputimers_stop. */
	st_rel(&ringing, false);
}

void cputimers_stop(void)
{
	add_sc(&stopped, 1);
	if (likely(!ld_acq(&cputimers)))
		return;
	while (ld_sc(&ringing))
		os_yield();
	/* On its return what was sent to this kernel thread has been handled. */
	arch_syscall3(SYS_getppid, 0, 0, 0);
}

void cputimers_go(void)
{
	add_sc(&stopped, (uint32_t)-1);
	if (unlikely(ld_acq(&due)))
		core_sigdefer();
}

FORKS void cpualarm_forked(void)
{
	st_rlx(&due, false);
	st_rlx(&stopped, 0);
	st_rlx(&ringing, false);
}
