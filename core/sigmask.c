/* The signal mask that the program sets, and which G a signal is for. Each G has a mask of its
 * own; an M's is changed on a switch only when two Gs in a row differ, so both must hear of a
 * change: by a call, or because a handler begins or ends. */
#include "core.h"
#include "preempt.h"
#include "sched.h"
#include "sigsave.h"
#include "sleep.h"
#include "syscall.h"

enum { SIG_SETMASK_ = 2 };

/* No G parks over a notice:
 *   it: begins a wait            we: sigdue = true
 *       parks                        a barrier in every thread
 *       looks at sigdue              look at its wait
 * and one of the two ends the wait. It looks again when it is resumed, in comeback() too. A wait of
 * one that is held goes on, for it looks in gunhold(): it takes held down before, and we look at
 * that after the barrier. */
void gnotify(struct g *gp)
{
	st_sc(&gp->sigdue, true);
	os_membarrier();
	if (!ld_rlx(&gp->held))
		gointerrupt(gp);
}

void gnotify_self(void)
{
	struct g *gp = getg();

	st_rlx(&gp->sigdue, true);
	st_rlx(&ld_rlx(&gp->m)->preemptmissed, true);
}

void ghold(void)
{
	struct g *gp = getg();

	if (gp) {
		uint32_t status = ld_rlx(&gp->status) & ~(uint32_t)GCLAIM;
		/* The program's code is called back within a call that was announced, where
		 * handlers run: that is over. */
		if (unlikely(status == GSYSCALL || status == GSYSCALLNOP)) {
			pin(gp);
			unpin(gp);
		}
		st_rlx(&gp->held, true);
	}
	compiler_barrier();
}

void gfaulted(void)
{
	struct g *gp = getg();

	if (gp)
		st_rlx(&gp->held, false);
}

void gunhold(void)
{
	struct g *gp = getg();

	compiler_barrier();
	if (!gp)
		return;
	st_rlx(&gp->held, false);
	compiler_barrier();
	if (unlikely(ld_rlx(&sched.nobarrier)))
		add_sc(&gp->wait, 0); /* a fence: see gnotify */
	/* Of what comes from here on the signal finds it open. */
	if (unlikely(ld_rlx(&gp->sigdue))) {
		st_rlx(&pin(gp)->preemptmissed, true);
		unpin(gp);
	}
}

void gpursue(struct g *gp)
{
	if (xchg_sc(&gp->pursued, true))
		return;
	add_sc(&sched.npursued, 1);
	/* In this order: sysmon does the reverse before its deep sleep. */
	add_sc(&sched.pursuits, 1);
	if (ld_sc(&sched.sysmonwait))
		wakesysmon();
}

void gpursued(struct g *gp)
{
	if (ld_rlx(&gp->pursued) && xchg_sc(&gp->pursued, false))
		add_sc(&sched.npursued, -1);
}

void gsetprio(struct g *gp, int prio)
{
	gp->prio = (uint8_t)prio;
}

void gmute(void)
{
	struct g *gp = getg();

	pin(gp);
	gmask_set(gp, ~(uint64_t)0);
	unpin(gp);
}

static bool takes(const struct g *gp, uint64_t bit)
{
	return gp && !on_g0(gp) && (ld_rlx(&gp->sigmask) & bit) == 0;
}

struct g *core_sigtake(int sig)
{
	struct g *self = getg(), *gp;
	uint64_t bit = (uint64_t)1 << (sig - 1);
	struct m *mp = ld_rlx(&self->m);

	if (!mp)
		return NULL;
	gp = ld_rlx(&mp->curg);
	if (!takes(gp, bit))
		gp = self;
	if (!takes(gp, bit))
		return NULL;
	/* One that is parking sees it in finish_switch, on this M; another when it is resumed
	 * or unpinned. */
	st_rlx(&gp->sigdue, true);
	st_rlx(&mp->preemptmissed, true);
	return gp;
}

void core_sigmark(struct g *gp)
{
	struct m *mp;

	st_sc(&gp->sigdue, true);
	/* If it goes elsewhere meanwhile it sees sigdue there, as a rule: there is no barrier, as
	 * in gnotify, which will follow. */
	mp = m_of(gp);
	if (mp)
		st_rlx(&mp->preemptmissed, true);
}

struct g *core_sigwired(void)
{
	struct g *self = getg();
	struct m *mp = self ? ld_rlx(&self->m) : NULL;

	return mp ? mp->lockedg : NULL;
}

struct g *core_sigcomputes(int sig)
{
	static ATOMIC(uint32_t) turn;
	uint32_t n = (uint32_t)ld_acq(&sched.gomaxprocs), first = add_rlx(&turn, 1);
	uint64_t bit = (uint64_t)1 << (sig - 1);

	for (uint32_t i = 0; i < n; i++) {
		struct m *mp = ld_acq(&sched.allp[(first + i) % n]->m);
		struct g *gp = mp ? ld_acq(&mp->curg) : NULL;
		uint32_t status = gp ? ld_acq(&gp->status) & ~(uint32_t)GCLAIM : GIDLE;
		if ((status == GRUNNING || status == GPINNED) && takes(gp, bit))
			return gp;
	}
	/* Between two slices. */
	for (struct g *gp = geach(NULL); gp; gp = geach(gp)) {
		uint32_t status = ld_acq(&gp->status);
		if ((status == GRUNNABLE || status == GPREEMPTED) && takes(gp, bit))
			return gp;
	}
	return NULL;
}

/* All signals are blocked, here and in core_sigend, but for the time between the two; so no
 * other handler, nor a preemption, comes between our words and the kernel's. */
uint64_t core_sigbegin(uint64_t mask)
{
	struct g *gp = getg();
	uint64_t before = ld_rlx(&gp->sigmask);
	bool call = core_sigplace() == SIGPLACE_CALL;

	st_rlx(&ld_rlx(&gp->m)->sigmask, ~(uint64_t)0);
	/* Of a call that it interrupts, and jumps out of, nobody else tells. */
	st_rlx(&gp->raised, true);
	gmask_set(gp, mask);
	if (call)
		exitsyscall();
	gsigprocmask(SIG_SETMASK_, &mask, NULL);
	return before;
}

void core_sigend(void *uc, uint64_t mask, bool call)
{
	struct g *gp = getg();
	struct m *mp;

	os_sigmask(~(uint64_t)0);
	if (call)
		entersyscall();
	mp = ld_rlx(&gp->m);
	st_rlx(&mp->sigmask, ~(uint64_t)0);
	gmask_set(gp, mask);
	st_rlx(&mp->sigmask, arch_sigmaskof(uc));
	preempt_rebind(mp, uc);
}

uint64_t gmask(void)
{
	struct g *gp = getg();
	uint64_t mask = 0;

	if (gp)
		return ld_rlx(&gp->sigmask);
	arch_syscall4(__NR_rt_sigprocmask, 0, 0, (long)&mask, sizeof(mask));
	return mask;
}

uint64_t gmask_of(const struct g *gp)
{
	return ld_rlx(&gp->sigmask);
}

int gsigprocmask(int how, const uint64_t *set, uint64_t *old)
{
	enum { BLOCK, UNBLOCK };
	struct g *gp = getg();
	struct m *mp = pin(gp);
	uint64_t before = 0, mine = ld_rlx(&gp->sigmask), mask;
	long r;

	/* One that is let in by the call finds the G here, and is for it. */
	if (set && how != BLOCK)
		st_rlx(&gp->sigmask, mine & (how == UNBLOCK ? ~*set : *set));
	r = arch_syscall4(__NR_rt_sigprocmask, how, (long)set, (long)&before, sizeof(before));
	if (r == 0 && set) {
		mask = how == BLOCK ? before | *set : how == UNBLOCK ? before & ~*set : *set;
		st_rlx(&mp->sigmask, mask);
		gmask_set(gp, mask);
	} else {
		st_rlx(&gp->sigmask, mine);
	}
	if (r == 0 && old)
		*old = before;
	unpin(gp);
	return (int)r;
}
