/* The switch from one G to the next, and what is done about the one that was left.
 *
 * A G that gives up its M picks its successor itself where that is easy (picknext) and
 * switches straight to it; all else is the business of the M's g0, whose loop is
 * schedule(). Either way the left G is published only after its context is saved, by
 * finish_switch() on the context that came next: nobody can run a G whose registers are
 * still on a cpu. */
#include "chain.h"
#include "core.h"
#include "guest.h"
#include "mthread.h"
#include "policies/turns.h"
#include "poller.h"
#include "preempt.h"
#include "san.h"
#include "sched.h"
#include "sigleft.h"
#include "trace.h"

struct sched sched = SCHED_FRESH;

static __attribute__((noinline)) void switch_mask(struct m *mp, struct g *from, const struct g *to)
{
	uint64_t has = ld_rlx(&mp->sigmask), its = ld_rlx(&to->sigmask), mask = its;

	if ((has & SIGS_OF_CALLS) != 0 && from != &mp->g0)
		sigs_left(mp, from, (has & ~its & SIGS_OF_CALLS) != 0);
	/* On the way back into a signal frame there is no room for a handler of the program's:
	 * all signals stay out until the frame brings its mask. */
	if (to->frame)
		mask = ~(uint64_t)0;
	if (mask == has)
		return;
	os_sigmask(mask);
	/* Release: pairs with the acquire in idle_lets_in. */
	st_rel(&mp->sigmask, mask);
}

/* Makes to the running G of mp. The caller is on from's stack and stays there until
 * arch_switch; a handler that comes in between finds GPINNED and keeps off. */
static void switch_to(struct m *mp, struct g *from, struct g *to)
{
	uintptr_t fs = fs_of(to, mp), gs = arch_getgs();
	uint64_t mask = ld_rlx(&mp->sigmask);

	st_rlx(&mp->curg, to);
	st_rlx(&to->m, mp);
	/* Relaxed: it was taken off a queue, so it is ours; what its last owner wrote was
	 * ordered by the queue. */
	st_rlx(&to->status, GPINNED);
	count(mp->p, switches);
	if (unlikely(to->frame || ld_rlx(&to->sigmask) != mask || (mask & SIGS_OF_CALLS) != 0))
		switch_mask(mp, from, to);
	if (fs != mp->fs) {
		mp->fs = fs;
		arch_setfs(fs);
	}
	/* What g0 has of it is of no account. */
	from->gsbase = gs;
	if (unlikely(gs != to->gsbase))
		arch_setgs(to->gsbase);
	setg(to);
	san_fiber_switch(from, to);
	arch_switch(&from->sched, &to->sched);
	san_fiber_arrived(from);
}

static void switch_to_g0(struct m *mp, struct g *from)
{
	if (unlikely((ld_rlx(&mp->sigmask) & SIGS_OF_CALLS) != 0))
		sigs_left(mp, from, true);
	st_rlx(&mp->curg, NULL);
	if (mp->g0.fsbase != mp->fs) {
		mp->fs = mp->g0.fsbase;
		arch_setfs(mp->fs);
	}
	from->gsbase = arch_getgs();
	setg(&mp->g0);
	idle_begins(mp);
	san_fiber_switch(from, &mp->g0);
	arch_switch(&from->sched, &mp->g0.sched);
	san_fiber_arrived(from);
}

/* True if g0 must make the next choice. */
static bool choice_is_hard(struct m *mp, struct p *pp)
{
	return mp->lockedg || choose_hard(pp);
}

/* The next G by the local queue, or NULL if g0 must choose. */
static struct g *picknext(struct m *mp)
{
	struct p *pp = ld_rlx(&mp->p);
	bool inherit;

	if (!pp || choice_is_hard(mp, pp))
		return NULL;
	struct g *gp = chain_next(mp, pp, &inherit);
	if (!gp && choose_policed()) {
		lock(&sched.lock);
		gp = globrunqget_locked(pp);
		unlock(&sched.lock);
	}
	if (!gp)
		return NULL;
	if (unlikely(gp->lockedm != NULL)) {
		mp->pendingg = gp;
		return NULL;
	}
	if (!inherit)
		bump(&pp->schedtick);
	return gp;
}

/* The first thing that gp does when it runs again. */
static void resumed(struct g *gp)
{
	struct m *mp = ld_rlx(&gp->m);

	finish_switch(mp);
	/* unpin, which is to come, looks closer. */
	if (unlikely(ld_rlx(&gp->sigdue)))
		st_rlx(&mp->preemptmissed, true);
}

void leave(struct m *mp, struct g *gp, enum postkind kind, bool (*fn)(struct g *, void *),
	   void *arg)
{
	struct g *next;

	/* But for the one that fn lets go. */
	DCHECK(GMP_G5, mp->nheld <= (fn ? 1 : 0));
	DCHECK(GMP_G2, ld_rlx(&gp->status) == GPINNED && ld_rlx(&mp->curg) == gp);
	mp->post.kind = kind;
	mp->post.g = gp;
	mp->post.fn = fn;
	mp->post.arg = arg;
	next = kind == POST_NOP || kind == POST_PREEMPT ? NULL : picknext(mp);
	if (next) {
		trace_switch(mp, gp, kind, next);
		switch_to(mp, gp, next);
	} else {
		trace_stop(mp, gp, kind);
		switch_to_g0(mp, gp);
	}
	resumed(gp);
}

static void dropg(struct g *gp)
{
	st_rlx(&gp->m, NULL);
}

/* It came back from a call or a block, and its P was taken: an idle P, else the queue. */
static void post_nop(struct m *mp, struct g *gp)
{
	struct gqueue q = { NULL, NULL };
	bool guest = guest_is(mp, gp), wired = guest_wired(gp);
	struct p *pp;

	dropg(gp);
	st_rlx(&gp->status, GRUNNABLE);
	lock(&sched.lock);
	pp = choose_turned() && !turns_may_locked(gp) ? NULL : pidleget_locked();
	if (!pp && (guest || wired)) {
		gqueue_push(&q, gp);
		globrunqputearly_locked(&q, 1);
		/* Idle before it asks: it is to have the G back. */
		mp->expects = guest;
		if (guest)
			mput_locked(mp);
	} else if (!pp) {
		globrunqput_locked(gp);
	} else if (choose_turned()) {
		turns_picked_locked(gp);
	}
	unlock(&sched.lock);
	if (pp) {
		guest_none(gp);
		acquirep(mp, pp);
		mp->pendingg = gp;
		return;
	}
	/* Of one in a call that lasts only sysmon finds that it does. */
	hurrysysmon();
	rousesysmon(NULL);
	if (guest) {
		guest_asks(mp);
		mwait(mp);
	} else if (wired) {
		sysmon_serves(true);
	} else if (!mp->lockedg) {
		stopm(mp);
	}
}

static void post_preempt(struct m *mp, struct g *gp)
{
	if (!ld_rlx(&mp->p)) {
		post_nop(mp, gp);
		return;
	}
	dropg(gp);
	/* What follows in this M's queue gets a slice of its own, even by way of runnext. */
	bump(&mp->p->schedtick);
	st_rlx(&gp->status, GRUNNABLE);
	lock(&sched.lock);
	globrunqput_locked(gp);
	unlock(&sched.lock);
	wakep_global(mp);
}

void finish_switch(struct m *mp)
{
	enum postkind kind;
	struct g *gp;
	bool (*fn)(struct g *, void *);
	void *arg;

	if (choose_policed() && mp->post.kind != POST_NONE)
		plan_left(mp->post.g, (int)mp->post.kind);
	/* Field by field, as they were written: a copy of the whole would wait for the stores. */
	kind = mp->post.kind;
	gp = mp->post.g;
	fn = mp->post.fn;
	arg = mp->post.arg;
	mp->post.kind = POST_NONE;
	switch (kind) {
	case POST_NONE:
		break;
	case POST_PARK:
		dropg(gp);
		/* Release: the saved context, for whoever readies it; with no lock (fn NULL)
		 * this store itself publishes the wait. */
		st_rel(&gp->status, GWAITING);
		count(mp->p, parks);
		if (unlikely(ld_rlx(&sched.nobarrier)))
			add_sc(&gp->wait, 0); /* a fence: see gnotify */
		if (fn && !fn(gp, arg)) {
			st_rlx(&gp->status, GRUNNABLE);
			/* g0 may have been given one to pass on already (picknext). */
			if (on_g0(getg()) && !mp->pendingg && !choose_turned())
				mp->pendingg = gp;
			else
				runqput(mp->p, gp, true);
			wakep(mp);
		} else if (unlikely(ld_rlx(&gp->sigdue)) && !ld_rlx(&gp->held)) {
			/* gnotify came before it could find the wait. If this one is over
			 * already, the G's next may end instead, as by any signal. */
			interrupt(mp, gp);
		}
		break;
	case POST_GOSCHED:
		dropg(gp);
		st_rlx(&gp->status, GRUNNABLE);
		globrunqput_locked(gp);
		unlock(&sched.lock);
		wakep_global(mp);
		break;
	case POST_YIELD:
		dropg(gp);
		st_rlx(&gp->status, GRUNNABLE);
		runqput(mp->p, gp, false);
		/* Its successor was taken first: for a moment the queue looked empty. */
		wakep_global(mp);
		break;
	case POST_COURTESY:
		dropg(gp);
		st_rlx(&gp->status, GRUNNABLE);
		/* On g0 the other one is still to be chosen. */
		runqput(mp->p, gp, !on_g0(getg()));
		wakep_global(mp);
		break;
	case POST_EXIT:
		dropg(gp);
		count(mp->p, finished);
		gfput(mp, gp);
		break;
	case POST_NOP:
		post_nop(mp, gp);
		break;
	case POST_PREEMPT:
		post_preempt(mp, gp);
		break;
	}
	if (unlikely(mp->owes)) {
		mp->owes = false;
		wakep_global(mp);
	}
	DCHECK(GMP_G5, mp->nheld == 0);
}

/* Runs gp on mp until a context of mp's comes back to g0. */
static void execute(struct m *mp, struct g *gp, bool inherit)
{
	DCHECK(WS_S1, ld_rlx(&gp->status) == GRUNNABLE && ld_rlx(&gp->m) == NULL);
	CHECK(WS_I7, gp->lockedm == NULL || gp->lockedm == mp);
	if (!inherit)
		bump(&mp->p->schedtick);
	timers_running(mp->p);
	trace_run(mp, gp);
	switch_to(mp, &mp->g0, gp);
	finish_switch(mp);
}

void schedule(struct m *mp)
{
	for (;;) {
		bool inherit = false, wake = false;
		struct g *gp;

		if (unlikely(mp->spoilt) && !mp->lockedg)
			mend(mp);
		if (mp->lockedg) {
			await_own(mp);
			execute(mp, mp->lockedg, false);
			continue;
		}
		dcheck_schedule(mp);
		if (unlikely(!mp->spareframe))
			mp->spareframe = sigsave_new();
		DCHECK(GMP_G5, mp->nheld == 0);
		gp = findrunnable(mp, &inherit, &wake);
		if (mp->spinning)
			resetspinning(mp);
		if (wake)
			wakep(mp);
		if (gp->lockedm && gp->lockedm != mp) {
			startlockedm(mp, gp);
			continue;
		}
		if (unlikely(gp->home != NULL) && guest_goes(mp, gp))
			continue;
		execute(mp, gp, inherit);
	}
}

void park(struct m *mp, struct g *gp, bool (*unlockf)(struct g *, void *), void *arg,
	  enum waitreason reason)
{
	gp->waitreason = (uint8_t)reason;
	st_rlx(&gp->waitsince, ld_rlx(&sched.now));
	leave(mp, gp, POST_PARK, unlockf, arg);
	gp->waitreason = WAIT_NONE;
}

void gopark(bool (*unlockf)(struct g *, void *), void *arg, int reason)
{
	struct g *gp = getg();

	park(pin(gp), gp, unlockf, arg, (enum waitreason)reason);
	unpin(gp);
}

/* Who yields waits perhaps for one who waits for a descriptor: the next look would be sysmon's,
 * once in a ms, or, where several yield to each other, in ten. */
static bool poll_owed(struct p *pp)
{
	if (!netpoll_anywaiters() || ld_rlx(&sched.lastpoll) == 0 ||
	    arch_cycles() - pp->pollseen <= ARCH_CYCLES_20US)
		return false;
	pp->pollseen = arch_cycles();
	return true;
}

/* Its choice is made by g0. True if another ran here meanwhile. */
static bool gosched_g0(struct m *mp, struct p *pp, struct g *gp)
{
	uint32_t tick = ld_rlx(&pp->schedtick);
	bool turned = choose_turned(), alone;

	leave(mp, gp, turned ? POST_YIELD : POST_PREEMPT, NULL, NULL);
	/* One slice for whatever might have been in runnext, one for us. */
	alone = !turned && ld_rlx(&ld_rlx(&gp->m)->p) == pp && ld_rlx(&pp->schedtick) == tick + 2;
	unpin(gp);
	return !alone;
}

/* Of the global queue into the own one, behind all that wait there, as far as there is room. */
static void take_share(struct p *pp)
{
	uint32_t n = ld_rlx(&pp->runqtail) - ld_rlx(&pp->runqhead), room = choose_room();
	struct g *first, *rest;
	int32_t more;

	if (n >= room)
		return;
	room -= n;
	lock(&sched.lock);
	first = globrunqgetbatch_locked(
		pp, (int32_t)room < choose_batch() ? (int32_t)room : choose_batch(), &rest, &more);
	unlock(&sched.lock);
	if (!first)
		return;
	first->schedlink = more > 0 ? rest : NULL;
	runqputbatch(pp, first, more + 1);
}

/* NULL: there is none, and the lock is not held. */
static struct g *gosched_locked(struct p *pp)
{
	struct g *next, *rest;
	bool inherit;
	int32_t n;

	/* Two that are alone on their Ps would meet at the lock for nothing. */
	if (ld_rlx(&sched.runqsize) == 0 && runqempty(pp))
		return NULL;
	lock(&sched.lock);
	next = runqget(pp, &inherit);
	if (next)
		return next;
	next = globrunqgetbatch_locked(pp, choose_batch(), &rest, &n);
	if (!next)
		unlock(&sched.lock);
	else if (n > 0)
		runqputbatch(pp, rest, n);
	return next;
}

bool gosched(void)
{
	struct g *gp = getg(), *next = NULL;
	struct m *mp = pin(gp);
	struct p *pp = mp->p;
	enum yielding how;
	enum postkind kind;
	bool inherit;

	count(pp, yields);
	if (unlikely(poll_owed(pp)) && !choose_turned())
		pp->pollowed = true;
	if (pp->pollowed || choice_is_hard(mp, pp))
		return gosched_g0(mp, pp, gp);
	how = choose_yield(pp);
	if (how == YIELD_TAKE && ld_rlx(&sched.runqsize) > 0)
		take_share(pp);
	if (how != YIELD_GLOBAL)
		next = runqget(pp, &inherit);
	if (!next) {
		next = gosched_locked(pp);
		if (!next) {
			unpin(gp);
			return false;
		}
		if (how != YIELD_GLOBAL)
			unlock(&sched.lock);
	}
	/* One stay in the lock serves both the choice and, on the next G's stack, the publication
	 * of this one. */
	kind = how == YIELD_GLOBAL ? POST_GOSCHED : POST_YIELD;
	mp->post.kind = kind;
	mp->post.g = gp;
	if (unlikely(next->lockedm != NULL)) {
		mp->pendingg = next;
		trace_stop(mp, gp, kind);
		switch_to_g0(mp, gp);
	} else {
		bump(&pp->schedtick);
		trace_switch(mp, gp, kind, next);
		switch_to(mp, gp, next);
	}
	resumed(gp);
	unpin(gp);
	return true;
}

void goyield(void)
{
	struct g *gp = getg();
	struct m *mp = pin(gp);

	count(mp->p, yields);
	leave(mp, gp, POST_YIELD, NULL, NULL);
	unpin(gp);
}

void goexit(void)
{
	struct g *gp = getg();

	leave(pin(gp), gp, POST_EXIT, NULL, NULL);
	__builtin_unreachable();
}
