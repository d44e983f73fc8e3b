/* Signals that the program gave no handler. The kernel acts upon one by itself as soon as a kernel
 * thread lets it in; so one must, as long as some G does, whether that G runs or not, and none may
 * when no G does any more. Three kinds of kernel threads let signals in:
 * - an M with a G, as that G does (sigmask.c);
 * - an M without: as the G that it ran last, but no more than the first G does. So the first G
 * alone must tell them when it blocks one, which it hardly ever does;
 * - sysmon, what Gs let in and nobody for them: it looks at what is pending for the process each
 *   10 ms, and lets all of that in while it sleeps deeply. */
#include "core.h"
#include "mthread.h"
#include "preempt.h"
#include "sched.h"
#include "sigsave.h"
#include "syscall.h"

enum {
	LOOK_NS = 10 * 1000 * 1000,
	YIELDS = 100,
	NAP_NS = 20 * 1000,
	PATIENCE = 10000, /* pauses: more than 200 ms */
};

/* 9, 19, 32 and 33. */
#define NEVER_BLOCKED ((uint64_t)1 << 8 | (uint64_t)1 << 18 | SIGS_OF_OURS)

/* Those of which M's masks do not tell: the above, and SIGSYS, which core_filters sees to. */
#define UNTOLD (NEVER_BLOCKED | (uint64_t)1 << 30)

/* ---- Ms without a G ---- */

/* The first G blocks one:              M: curg = NULL
 *   its mask is set                       is on g0
 *   a barrier in every thread             looks at that mask
 *   looks which Ms have no G
 * and one of the two sees the other. The handler does nothing before g0 is the M's, nor once it has
 * a G again, nor while idle_shut is at it, which looks again, nor within another handler, whose end
 * would undo it: so no mask is lost, and what is recorded of it is true. */
static uint64_t excess(struct m *mp)
{
	/* A wired G's comes back to this M alone. */
	uint64_t mask = mp->lockedg ? ld_rlx(&mp->lockedg->sigmask) & ~UNTOLD
				    : ld_sc(&sched.firstmask);

	return mask & ~ld_rlx(&mp->sigmask) & ~mthread_handled();
}

void idle_shut(struct m *mp)
{
	uint64_t mask;

	do {
		st_rlx(&mp->shutting, true);
		/* A G that was about to end, or to run a handler, may have blocked even ours. */
		mask = (ld_rlx(&mp->sigmask) | excess(mp)) & ~SIGS_OF_OURS;
		if (mask != ld_rlx(&mp->sigmask)) {
			os_sigmask(mask);
			/* Release: pairs with the acquire in idle_lets_in. */
			st_rel(&mp->sigmask, mask);
		}
		st_rel(&mp->shutting, false);
	} while (excess(mp) != 0);
}

void idle_shuts(struct m *mp, void *uc)
{
	uint64_t more;

	if (ld_rlx(&mp->curg) || ld_rlx(&mp->shutting) ||
	    ((arch_sigmaskof(uc) ^ ld_rlx(&mp->sigmask)) & ~NEVER_BLOCKED) != 0)
		return;
	if (unlikely(ld_rlx(&sched.nobarrier)))
		or_sc(&mp->sigmask, 0); /* a fence, as in idle_begins */
	more = excess(mp);
	if (more == 0)
		return;
	arch_sigblock(uc, more);
	/* All signals are blocked until the frame ends. */
	st_rel(&mp->sigmask, ld_rlx(&mp->sigmask) | more);
}

/* Does mp let in one of set that has no handler, and not because its G does? */
static bool idle_lets_in(struct m *mp, uint64_t set)
{
	uint64_t open = set & ~(ld_acq(&mp->sigmask) | mthread_handled() | UNTOLD);
	struct g *gp;

	if (open == 0)
		return false;
	gp = ld_acq(&mp->curg);
	if (!gp)
		gp = ld_rlx(&mp->lockedg);
	return !gp || (ld_sc(&gp->sigmask) & open) != 0;
}

/* A moment, for another kernel thread; a longer one if it is of a lower class than we. */
static void pause(int i)
{
	static ATOMIC(uint32_t) word;

	if (i < YIELDS)
		os_yield();
	else
		futexsleep(&word, 0, NAP_NS);
}

/* The caller's own M has a G, and the mask that the caller gave it, or will. A signal 32 may find
 * an M in a handler, or be taken by a debugger: so others follow. One that does not answer for so
 * long that it never may is not worth a hang. */
static void shut_idle(uint64_t set)
{
	struct g *self = getg();
	struct m *own = self ? ld_rlx(&self->m) : NULL;

	os_membarrier();
	for (struct m *mp = ld_acq(&sched.allm); mp; mp = mp->alllink)
		for (int i = 0; mp != own && i < PATIENCE && idle_lets_in(mp, set); i++) {
			if (i % YIELDS == 0 && !preempt_idle(mp))
				break;
			pause(i);
		}
	/* It lets in what has a handler, and heard that one has none any more. */
	for (int i = 0; i < PATIENCE && mthread_lingers(set); i++)
		pause(i);
}

void sigopen_lost(uint64_t set)
{
	set &= ld_sc(&sched.firstmask);
	if (set != 0)
		shut_idle(set);
}

/* ---- sysmon ---- */

/* What Gs let in. It walks only if the first does not let in all that any ever did. */
static uint64_t opened(void)
{
	uint64_t set = ~ld_sc(&sched.firstmask);

	if ((ld_sc(&sched.everopen) & ~set) == 0)
		return set;
	/* Then looks at them all: who opens one does the reverse. */
	st_sc(&sched.everopen, set);
	for (struct g *gp = ld_acq(&sched.allg); gp; gp = gp->alllink)
		set |= ~ld_sc(&gp->sigmask);
	or_sc(&sched.everopen, set);
	return set;
}

/* Published, then looked at: who blocks one does the reverse. */
static void look_begins(uint64_t set)
{
	add_sc(&sched.deeplooks, 1);
	st_sc(&sched.deepopen, set);
}

static void look_ends(uint64_t set)
{
	st_sc(&sched.deepopen, set);
	add_sc(&sched.deeplooks, 1);
}

void sigopen_look(uint64_t now)
{
	static uint64_t last;
	uint64_t set = 0;

	if (now - last < LOOK_NS)
		return;
	last = now;
	/* Sysmon blocks all of them. */
	arch_syscall3(__NR_rt_sigpending, (long)&set, sizeof(set), 0);
	set &= ~(mthread_handled() | UNTOLD);
	if (likely(set == 0))
		return;
	look_begins(set);
	set &= opened();
	if (set != 0) {
		mthread_letin(set);
		mthread_letin(0);
	}
	look_ends(0);
}

void sigopen_deep(void)
{
	uint64_t set;

	look_begins(~(uint64_t)0);
	set = opened() & ~(mthread_handled() | UNTOLD);
	mthread_letin(set);
	look_ends(set);
}

void sigopen_awake(void)
{
	mthread_letin(0);
	st_sc(&sched.deepopen, 0);
}

/* ---- Gs ---- */

/* The running G and the first block these: sysmon is to know. What it lets in after a look that
 * began since then is another's; where all Ps are idle (we may have lost ours) it goes back to
 * sleep at once, and where it shares a cpu with us it is never found awake. */
static void await_look(uint64_t shut)
{
	/* One that is at work may have begun before. */
	uint32_t enough = (ld_sc(&sched.deeplooks) + 3) & ~(uint32_t)1;

	for (int i = 0; (ld_sc(&sched.deepopen) & shut) != 0 &&
			(int32_t)(ld_sc(&sched.deeplooks) - enough) < 0;
	     i++) {
		wakesysmon();
		pause(i);
	}
}

void gmask_set(struct g *gp, uint64_t mask)
{
	uint64_t shut = mask & ~(ld_rlx(&gp->sigmask) | UNTOLD);
	bool first = gp == sched.firstg;

	st_sc(&gp->sigmask, mask);
	if (first)
		st_sc(&sched.firstmask, mask & ~UNTOLD);
	if (unlikely((ld_sc(&sched.everopen) | mask) != ~(uint64_t)0))
		or_sc(&sched.everopen, ~mask);
	if (likely(shut == 0))
		return;
	if (first && (shut & ~mthread_handled()) != 0)
		shut_idle(shut);
	/* What the first lets in may come. */
	shut &= ld_sc(&sched.firstmask);
	if (unlikely((ld_sc(&sched.deepopen) & shut) != 0))
		await_look(shut);
}
