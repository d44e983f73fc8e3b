/* Ms: starting, stopping, handing Ps from one to the other, wiring. Owns the counts of Ms but for
 * that of the idle ones (mlist.c). */
#include "core.h"
#include "mthread.h"
#include "policies/turns.h"
#include "poller.h"
#include "sched.h"

enum { ENOMEM_ = 12 };

void stopm(struct m *mp)
{
	struct p *pp;

	CHECK(GMP_M2, !mp->spinning);
	CHECK(GMP_M1, ld_rlx(&mp->p) == NULL && mp->nheld == 0);
	lock(&sched.lock);
	/* One that wanted a spinner found no M; here is one, if it did not find it since. */
	if (ld_sc(&sched.needspinning) != 0 && (pp = pidleget_locked()) != NULL) {
		becomespinning(mp);
		unlock(&sched.lock);
		acquirep(mp, pp);
		return;
	}
	mput_locked(mp);
	unlock(&sched.lock);
	mwait(mp);
}

/* Hands pp to the sleeping M of a locked G at the head part of the global queue, if there is
 * one: no other M can run that G, and there may be no other M. */
static bool start_locked_locked(struct p *pp)
{
	struct g *before = NULL;

	for (struct g *gp = sched.runq.head; gp; before = gp, gp = gp->schedlink) {
		struct m *owner = gp->lockedm;
		if (!owner || !owner->lockedwait)
			continue;
		globrunqremove_locked(gp, before);
		if (choose_turned())
			turns_picked_locked(gp);
		sched.nmidlelocked--;
		owner->nextp = pp;
		notewakeup(&owner->park);
		return true;
	}
	return false;
}

/* Gives back what startm could not use. Work that is queued is found by the next M that
 * schedules, or by sysmon's look. */
static uint64_t startm_failed_locked(struct p *pp, bool spinning)
{
	uint64_t when = 0;

	if (spinning) {
		int32_t before = add_sc(&sched.nmspinning, -1);
		CHECK(WS_I6, before > 0);
	}
	if (ld_rlx(&sched.gcwaiting)) {
		pstopped_locked(pp);
	} else {
		runqdrain_locked(pp);
		if (!start_locked_locked(pp)) {
			when = ld_rlx(&pp->timers.first);
			pidleput_locked(pp);
			st_sc(&sched.needspinning, 1);
		}
	}
	return when;
}

/* The timers of a P that went idle so are the poller's, if there is one, else sysmon's. */
static void leave_timers(uint64_t when)
{
	if (when != 0 && ld_sc(&sched.lastpoll) == 0)
		wakenetpoller(when);
	else if (when != 0)
		timers_orphaned(when);
}

void mstart_failed(struct p *pp, bool spinning)
{
	uint64_t when;

	lock(&sched.lock);
	sched.mcount--;
	when = startm_failed_locked(pp, spinning);
	unlock(&sched.lock);
	leave_timers(when);
}

static void counts_locked(void)
{
	sched.mcount++;
	if (sched.mpeak < sched.mcount)
		sched.mpeak = sched.mcount;
}

/* May there be one M more? */
static bool room_locked(void)
{
	if (unlikely(ld_rlx(&sched.softmcount) != 0) && sched.mcount >= ld_rlx(&sched.softmcount)) {
		st_rlx(&sched.full, ld_rlx(&sched.midle) == NULL);
		return false;
	}
	return sched.mcount < sched.maxmcount;
}

void startm(struct p *pp, bool spinning)
{
	uint64_t when = 0;
	struct m *mp;
	bool room;

	lock(&sched.lock);
	if (!pp) {
		pp = pidleget_locked();
		if (!pp) {
			unlock(&sched.lock);
			return;
		}
	}
	mp = mget_locked();
	room = room_locked();
	if (!mp && room)
		counts_locked();
	/* In the stay in the lock that found no M: the next to go to sleep sees it. */
	if (!mp && !room)
		when = startm_failed_locked(pp, spinning);
	unlock(&sched.lock);

	if (mp) {
		CHECK(GMP_M3, !spinning || runqempty(pp));
		st_rlx(&mp->spinning, spinning);
		mp->nextp = pp;
		notewakeup(&mp->park);
		return;
	}
	if (!room) {
		leave_timers(when);
		return;
	}
	mp = malloc_m();
	if (!mp) {
		mstart_failed(pp, spinning);
		return;
	}
	st_rlx(&mp->spinning, spinning);
	mp->nextp = pp;
	mcreate(mp);
}

void handoffp(struct p *pp)
{
	uint64_t when;

	/* Work to do: start it at once. */
	if (!runqempty(pp) || ld_sc(&sched.runqsize) != 0) {
		startm(pp, false);
		return;
	}
	/* Nobody looks and no P is idle: whoever queues a G now relies on us to. With one P that is
	 * somebody without any, who finds it idle. */
	if (ld_sc(&sched.nmspinning) + ld_sc(&sched.npidle) == 0 && ld_rlx(&sched.gomaxprocs) > 1 &&
	    cas_sc(&sched.nmspinning, 0, 1)) {
		st_sc(&sched.needspinning, 0);
		startm(pp, true);
		return;
	}
	lock(&sched.lock);
	if (ld_rlx(&sched.gcwaiting)) {
		pstopped_locked(pp);
		unlock(&sched.lock);
		return;
	}
	/* A submitter that found no idle P relies on whoever goes idle to look. */
	if (ld_sc(&sched.needspinning) != 0 && cas_sc(&sched.nmspinning, 0, 1)) {
		st_sc(&sched.needspinning, 0);
		unlock(&sched.lock);
		startm(pp, true);
		return;
	}
	/* The last P to go idle: an M must poll for those who wait there, if none does, and make
	 * sure of what they rely on since. */
	if (sched.runqsize != 0 ||
	    (ld_rlx(&sched.npidle) == ld_rlx(&sched.gomaxprocs) - 1 &&
	     ((ld_rlx(&sched.lastpoll) != 0 && netpoll_anywaiters()) || netpoll_anyunsure()))) {
		unlock(&sched.lock);
		startm(pp, false);
		return;
	}
	when = ld_rlx(&pp->timers.first);
	pidleput_locked(pp);
	unlock(&sched.lock);
	if (when != 0)
		wakenetpoller(when);
}

/* Gives pp to the M of a locked G that is to run on it, and is no longer counted as asleep. */
static void give_to_owner(struct p *pp, struct g *gp)
{
	struct m *owner = gp->lockedm;

	CHECK(GMP_M6, owner->lockedg == gp && !owner->nextp);
	owner->nextp = pp;
	notewakeup(&owner->park);
}

/* Puts a locked M to sleep until some other M hands it a P for its G; its own P goes to next's, if
 * that is not NULL, a locked one taken off that P's queue. */
static void stoplockedm(struct m *mp, struct g *next)
{
	struct p *pp = ld_rlx(&mp->p) ? releasep(mp) : NULL;

	CHECK(GMP_M6, mp->lockedg && mp->lockedg->lockedm == mp);
	/* Before the hand-off: without another M, the P may come straight back. One sleeps, and
	 * next's no longer does. */
	lock(&sched.lock);
	if (!next)
		sched.nmidlelocked++;
	mp->lockedwait = true;
	unlock(&sched.lock);
	if (next)
		give_to_owner(pp, next);
	else if (pp)
		handoffp(pp);
	lock(&sched.lock);
	checkdead_locked();
	unlock(&sched.lock);
	mpark(mp);
	lock(&sched.lock);
	mp->lockedwait = false;
	unlock(&sched.lock);
	CHECK(GMP_M6, ld_rlx(&mp->lockedg->status) == GRUNNABLE);
	acquirep(mp, mp->nextp);
	mp->nextp = NULL;
}

/* For a locked M whose G has stopped: the next by its P's queue, if that is a locked one, too. It
 * needs no other M to find it.
 *
 * Each turn of a locked G is a slice of its own, so two that wake each other never come to the end
 * of one: now and then the one in runnext goes behind those that wait. */
static struct g *next_locked(struct m *mp)
{
	struct p *pp = ld_rlx(&mp->p);
	bool inherit, behind;
	struct g *gp;

	if (!pp || sched_odd())
		return NULL;
	behind = ld_rlx(&pp->schedtick) % CHOOSE_GLOBAL_TICK == 0;
	if (!behind && (choose_hard(pp) || ld_rlx(&sched.verifydue) != 0))
		return NULL;
	gp = runqget(pp, &inherit);
	if (!gp || (gp->lockedm && !behind))
		return gp;
	runqput(pp, gp, !(behind && inherit));
	return NULL;
}

/* Until the G of a locked M has a P. */
void await_own(struct m *mp)
{
	struct g *next = mp->pendingg ? mp->pendingg : next_locked(mp);

	CHECK(GMP_M6, !mp->pendingg || mp->pendingg == mp->lockedg);
	mp->pendingg = NULL;
	if (next != mp->lockedg)
		stoplockedm(mp, next);
}

/* mp found gp, which is another M's: gives that M its P and goes to sleep. */
void startlockedm(struct m *mp, struct g *gp)
{
	struct p *pp = releasep(mp);

	CHECK(GMP_M6, gp->lockedm != mp);
	lock(&sched.lock);
	/* It may be on its way to sleep still, and be counted only then. */
	sched.nmidlelocked--;
	unlock(&sched.lock);
	give_to_owner(pp, gp);
	stopm(mp);
}

void lockosthread(void)
{
	struct g *gp = getg();
	struct m *mp = pin(gp);

	gp->lockedcount++;
	gp->lockedm = mp;
	st_rlx(&mp->lockedg, gp);
	unpin(gp);
}

void lockosthread_sig(void)
{
	struct g *gp = getg();
	struct m *mp = ld_rlx(&gp->m);

	/* Only this kernel thread looks at these, and it is here. */
	gp->lockedcount++;
	gp->lockedm = mp;
	st_rlx(&mp->lockedg, gp);
}

/* A new M, to be a copy of the running one's kernel thread that ends with the G it is wired to. */
static struct m *malloc_copy(void)
{
	struct m *to = malloc_m();
	bool room;

	if (!to)
		return NULL;
	lock(&sched.lock);
	room = sched.mcount < sched.maxmcount;
	if (room)
		counts_locked();
	unlock(&sched.lock);
	to->spoilt = mthread_ends();
	if (room)
		return to;
	mfree(to);
	return NULL;
}

static int start_copy(struct m *to)
{
	int r = newosproc(to);

	if (r == 0)
		return 0;
	mfree(to);
	lock(&sched.lock);
	sched.mcount--;
	unlock(&sched.lock);
	return r;
}

/* One for gp, which is wired to mp, here; it waits for a P to run gp with. */
static bool wire_anew(struct m *mp, struct g *gp)
{
	struct m *to = malloc_copy();

	if (!to)
		return false;
	st_rlx(&to->lockedg, gp);
	gp->lockedm = to;
	st_rlx(&mp->lockedg, NULL);
	if (start_copy(to) == 0)
		return true;
	st_rlx(&to->lockedg, NULL);
	gp->lockedm = mp;
	st_rlx(&mp->lockedg, gp);
	return false;
}

int gbreed(struct m **out)
{
	struct g *self = getg();
	struct m *to;
	int r = -ENOMEM_;

	pin(self);
	to = malloc_copy();
	if (to) {
		to->bred = true;
		r = start_copy(to);
	}
	unpin(self);
	if (r == 0)
		*out = to;
	return r;
}

int32_t gwed(struct m *bred, struct g *gp)
{
	int32_t tid = ld_rlx(&bred->tid);

	if (gp) {
		CHECK(GMP_M6, !gp->lockedm && gp->lockedcount == 0);
		gp->lockedcount = 1;
		gp->lockedm = bred;
		st_rlx(&bred->lockedg, gp);
	}
	notewakeup(&bred->wed);
	return tid;
}

void mbegin(struct m *mp)
{
	if (mp->bred) {
		notesleep(&mp->wed);
		noteclear(&mp->wed);
		mp->bred = false;
		if (!mp->lockedg)
			mend(mp);
	}
	/* One that was made for a wired G waits to be handed a P for it, or has been. */
	if (!mp->lockedg) {
		acquirep(mp, mp->nextp);
		mp->nextp = NULL;
		count(mp->p, mstarts);
	}
	schedule(mp);
}

void ghome(void)
{
	/* In that time an M that polls, or is woken, finds gp, or sleeps and can be given it. */
	enum { SOON_NS = 20 * 1000 * 1000 };
	struct g *gp = getg();
	struct m *first = ld_acq(&sched.allm), *mp = pin(gp);
	uint64_t until = nanotime() + SOON_NS;

	while (first && !first->leader)
		first = first->alllink;
	/* Under a policy whose turn it is goes by no M. */
	while (first && mp != first && !ld_rlx(&first->curg) && !ld_rlx(&first->lockedg) &&
	       !gp->lockedm && !choose_policed() && nanotime() < until) {
		netpoll_break();
		os_yield();
		gp->home = first;
		leave(mp, gp, POST_PREEMPT, NULL, NULL);
		mp = ld_rlx(&gp->m);
	}
	gp->home = NULL;
	unpin(gp);
}

void gspoil(bool stays)
{
	struct g *gp = getg();
	struct m *mp = pin(gp);

	CHECK(GMP_M6, gp->lockedm == mp && mp->lockedg == gp);
	if (mp->leader && !stays && mthread_ends() && wire_anew(mp, gp))
		leave(mp, gp, POST_PREEMPT, NULL, NULL);
	else
		mp->spoilt = mthread_ends();
	unpin(gp);
}

void gspoil_sig(void)
{
	ld_rlx(&getg()->m)->spoilt = mthread_ends();
}

void mend(struct m *mp)
{
	/* They stay for good, so not many. */
	enum { MOST_PARENTS = 64 };
	static uint32_t parents; /* under sched.lock */
	struct p *pp = ld_rlx(&mp->p) ? releasep(mp) : NULL;

	CHECK(GMP_M2, !mp->spinning);
	/* Its P is still to be counted for. */
	lock(&sched.lock);
	sched.mcount--;
	sched.nmsys--;
	st_rlx(&sched.full, false);
	unlock(&sched.lock);
	if (pp)
		handoffp(pp);
	lock(&sched.lock);
	sched.nmsys++;
	mp->parent = mp->parent && parents++ < MOST_PARENTS;
	checkdead_locked();
	unlock(&sched.lock);
	mthread_end(mp);
}

void unlockosthread(void)
{
	struct g *gp = getg();
	struct m *mp = pin(gp);

	if (gp->lockedcount > 0 && --gp->lockedcount == 0) {
		gp->lockedm = NULL;
		st_rlx(&mp->lockedg, NULL);
	}
	unpin(gp);
}

int32_t core_monitor(void)
{
	return ld_rlx(&sched.sysmonm->tid);
}
