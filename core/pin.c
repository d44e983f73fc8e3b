/* Entering and leaving the core on a G, announced system calls, and winning back a P.
 * All of it is one protocol on the G's status word: HACKING.md, "The claim" (GMP_G1). */
#include "core.h"
#include "courtesy.h"
#include "guest.h"
#include "mthread.h"
#include "policies/turns.h"
#include "sched.h"
#include "trace.h"

void claim_pause(int i, ATOMIC(uint32_t) *word, uint32_t value)
{
	enum { PAUSES = 1000, YIELDS = 1100, NAP_NS = 20 * 1000 };

	if (i < PAUSES)
		arch_relax();
	else if (i < YIELDS)
		os_yield();
	else
		/* It is of a lower class than we, on the same cpu: a yield does not help it. */
		futexsleep(word, value, NAP_NS);
}

/* GMP_G6. A taker holds the claim for a dozen instructions; only if the kernel takes the cpu
 * from it is it worth giving ours up. */
static void claim_wait(struct g *gp, uint32_t status)
{
	for (int i = 0; ld_acq(&gp->status) == (status | GCLAIM); i++) {
		claim_pause(i, &gp->status, status | GCLAIM);
	}
}

/* An idle P for mp, its last one for choice. */
static bool winidle(struct m *mp, const struct g *gp)
{
	struct p *pp = mp->oldp;

	if (ld_rlx(&sched.npidle) == 0)
		return false;
	lock(&sched.lock);
	if (choose_turned() && !turns_may_locked(gp))
		pp = NULL;
	else if (!pp || !pidletake_locked(pp))
		pp = pidleget_locked();
	if (pp && choose_turned())
		turns_picked_locked(gp);
	unlock(&sched.lock);
	if (!pp)
		return false;
	acquirep(mp, pp);
	timers_running(pp);
	return true;
}

/* winp: gets a P for the running G, whose status is GPINNED and whose M has none.
 * Blocks the G if there is none idle. */
static void winp(struct m *mp, struct g *gp)
{
	DCHECK(GMP_M4, ld_rlx(&mp->p) == NULL);
	st_rlx(&sched.now, nanotime());
	if (winidle(mp, gp))
		trace_back(mp, mp->p, gp);
	else
		leave(mp, gp, POST_NOP, NULL, NULL);
}

struct m *pin(struct g *gp)
{
	/* Acquire: pairs with the release in a taker that gave up its claim. Failing means
	 * that a taker is at work or was; a plain store would run over its claim. */
	if (likely(cas_acq(&gp->status, GRUNNING, GPINNED)))
		return ld_rlx(&gp->m);
	return pin_slow(gp);
}

struct m *pin_slow(struct g *gp)
{
	for (;;) {
		uint32_t status = ld_acq(&gp->status);
		switch (status) {
		case GRUNNING:
			if (cas_acq(&gp->status, GRUNNING, GPINNED))
				return ld_rlx(&gp->m);
			break;
		case GRUNNING | GCLAIM:
			claim_wait(gp, GRUNNING);
			break;
		case GOFFP:
			/* A CAS, for sysmon may be handing us a P this moment. */
			if (cas_acq(&gp->status, GOFFP, GPINNED)) {
				winp(ld_rlx(&gp->m), gp);
				return ld_rlx(&gp->m);
			}
			break;
		case GOFFP | GCLAIM:
			claim_wait(gp, GOFFP);
			break;
		case GSYSCALL:
		case GSYSCALL | GCLAIM:
		case GSYSCALLNOP:
			/* A library's function that was announced as a whole calls back. */
			exitsyscall();
			break;
		default:
			CHECK(GMP_G2, status == GRUNNING);
		}
	}
}

/* A signal came while the G was in the core, and could do nothing. */
static void unpin_missed(struct g *gp)
{
	struct m *mp;
	bool owed;

	do {
		mp = pin(gp);
		st_rlx(&mp->preemptmissed, false);
		owed = courtesy_owed(mp, gp);
		if (ld_rlx(&mp->preempttick) == ld_rlx(&mp->p->schedtick) + 1) {
			slice_ended(mp->p, gp);
			leave(mp, gp, POST_PREEMPT, NULL, NULL);
			mp = ld_rlx(&gp->m);
		} else if (owed) {
			count(mp->p, courteous);
			leave(mp, gp, POST_COURTESY, NULL, NULL);
			/* Who looks between two such has not spun: core_looked. */
			gp->looks = 0;
			mp = ld_rlx(&gp->m);
		}
		st_rel(&gp->status, GRUNNING);
		compiler_barrier();
	} while (ld_rlx(&mp->preemptmissed));
	if (takes_notice(gp) && sigdue(NULL))
		divert();
}

void unpin(struct g *gp)
{
	struct m *mp = ld_rlx(&gp->m);

	/* Release: pairs with the acquire of a taker's CAS; it sees the P as we left it. */
	st_rel(&gp->status, GRUNNING);
	/* Then the look: a handler that comes before the store leaves its mark, one that comes
	 * after it finds GRUNNING and acts. If the G was carried to another M in between, the
	 * mark is another's, who loses nothing. */
	compiler_barrier();
	if (unlikely(ld_rlx(&mp->preemptmissed)))
		unpin_missed(gp);
}

struct m *enter(struct g *self)
{
	if (!self)
		return NULL;
	if (!on_g0(self))
		return pin(self);
	return ld_rlx(&self->m->p) ? self->m : NULL;
}

void outof(struct g *self)
{
	if (self && !on_g0(self))
		unpin(self);
}

void gpin(void)
{
	struct g *gp = getg();

	if (gp)
		pin(gp);
}

void gunpin(void)
{
	struct g *gp = getg();

	if (gp)
		unpin(gp);
}

/* Sysmon would find that the call lasts when it is half over, and not look at all while nobody
 * waits; but somebody may be made ready meanwhile. Where the order is to be the seed's, or kernel
 * threads are counted, that is for sysmon all the same. */
bool core_lend(void)
{
	struct g *gp = getg();
	struct m *mp;

	if (ld_rlx(&sched.softmcount) != 0 || sched.patient || choose_turned())
		return false;
	mp = pin(gp);
	count(mp->p, retakecall);
	trace_taken(gp, true);
	guest_lends(gp);
	handoffp(releasep(mp));
	/* Release: as by a taker. */
	st_rel(&gp->status, GOFFP);
	compiler_barrier();
	/* A signal that came while we were in the core is for before the call. */
	if (unlikely(ld_rlx(&mp->preemptmissed)) && ld_rlx(&gp->sigdue)) {
		pin(gp);
		unpin(gp);
	}
	return true;
}

/* Sysmon sleeps deeply only while every P is idle, or the world is being stopped, and then it is
 * woken by who takes a P, or stops the world: that is not for us, whom a handler may carry out of
 * here for good. */
static inline void entered(struct g *gp)
{
	struct m *mp = ld_rlx(&gp->m);

	if (unlikely(ld_sc(&mp->sending) != ld_rlx(&mp->settled)))
		preempt_settle(mp);
}

/* The roads that are seldom taken are apart: the short ones save no registers for them. */
static __attribute__((noinline)) void entersyscall_slow(struct g *gp)
{
	while (!cas_sc(&gp->status, GRUNNING, GSYSCALL)) {
		uint32_t status = ld_acq(&gp->status);
		if (status == GOFFP && cas_sc(&gp->status, GOFFP, GSYSCALLNOP))
			break;
		if ((status & ~(uint32_t)GCLAIM) == GSYSCALL || status == GSYSCALLNOP)
			/* Within one that was announced. */
			exitsyscall();
		else if (status & GCLAIM)
			claim_wait(gp, status & ~(uint32_t)GCLAIM);
		else
			CHECK(GMP_G2, status == GRUNNING || status == GOFFP);
	}
	entered(gp);
}

void entersyscall(void)
{
	struct g *gp = getg();
	struct m *mp = ld_rlx(&gp->m);

	bump(&mp->syscalltick);
	/* Pairs with the acquire of a taker's CAS: from here on the P may go. Sequentially
	 * consistent, before the look at `sending`: nudge(). */
	if (likely(cas_sc(&gp->status, GRUNNING, GSYSCALL)))
		entered(gp);
	else
		entersyscall_slow(gp);
}

/* What was sent to the process before it sent what ended the call is natively delivered before the
 * call returns, if nobody else lets it in. Here the starter lets in all that has a handler, and the
 * kernel may have told it of the signal, which it has not come to take yet. A mask that is changed
 * has the kernel look what is pending for this kernel thread. */
static void take_pending(void)
{
	if (mthread_handled() & ~ld_rlx(&getg()->sigmask))
		os_sigmask(os_sigmask(~(uint64_t)0));
}

static __attribute__((noinline)) bool exitsyscall_slow(struct g *gp)
{
	while (!cas_acq(&gp->status, GSYSCALL, GRUNNING)) {
		uint32_t status = ld_acq(&gp->status);
		if (status == (GSYSCALL | GCLAIM)) {
			claim_wait(gp, GSYSCALL);
		} else if (status == GSYSCALLNOP) {
			uint64_t ended = nanotime();
			const struct p *had;
			bool lasted;
			/* A CAS, for a handler of the program's may come before it, which wins a P,
			 * perhaps on another M, and goes back into the call. */
			if (!cas_acq(&gp->status, GSYSCALLNOP, GPINNED))
				continue;
			had = ld_rlx(&gp->m)->oldp;
			guest_returns(gp);
			winp(ld_rlx(&gp->m), gp);
			lasted = guest_back(gp, had, ended);
			count(ld_rlx(&gp->m)->p, syscallslow);
			unpin(gp);
			take_pending();
			return lasted;
		} else if (status == GSYSCALL) {
			continue;
		} else {
			/* It ended when something within it entered the core. */
			status &= ~(uint32_t)GCLAIM;
			CHECK(GMP_G2, status == GRUNNING || status == GOFFP);
			return false;
		}
	}
	return false;
}

bool exitsyscall(void)
{
	struct g *gp = getg();

	/* Acquire: pairs with the release of a taker that looked and let go. Success means
	 * that the P was never taken. */
	if (unlikely(!cas_acq(&gp->status, GSYSCALL, GRUNNING)))
		return exitsyscall_slow(gp);
	/* It was asked to give way meanwhile. */
	if (unlikely(ld_rlx(&ld_rlx(&gp->m)->preemptmissed)))
		unpin_missed(gp);
	return false;
}

void core_begets(void)
{
	struct g *gp = getg();
	struct m *mp;

	/* None: about a vfork. */
	if (!gp)
		return;
	mp = pin(gp);
	/* To one's own M the end of its thread is the thread's. */
	if (!ld_rlx(&mp->lockedg))
		mp->parent = true;
	unpin(gp);
}

struct g *core_vforking(void)
{
	struct g *gp = getg();

	entersyscall();
	/* A handler would find no G; what comes meanwhile is delivered as the call is over. */
	gp->vforkmask = os_sigmask(~(uint64_t)0);
	setg(NULL);
	return gp;
}

void core_vforked(struct g *gp)
{
	setg(gp);
	os_sigmask(gp->vforkmask);
	exitsyscall();
}

void core_vforkchild(const struct g *gp)
{
	os_sigmask(gp->vforkmask);
}
