/* Finding a G to run: findrunnable, stealing, spinning. The order of the steps is Go's
 * and each is a promise (facts: L1, L4, I5); "The delicate dance" in HACKING.md tells
 * the last ones as interleavings, tests/model/spin/dance.pml explores them. */
#include "chain.h"
#include "policies/turns.h"
#include "poller.h"
#include "sched.h"
#include "trace.h"

enum { RUNNEXT_BACKOFF_NS = 3000, SLEEP_NS = 1000, VERIFY_AT_ONCE = 64 };

void becomespinning(struct m *mp)
{
	st_rlx(&mp->spinning, true);
	add_sc(&sched.nmspinning, 1);
	/* Sequentially consistent, and before the first look at the queues: a submitter
	 * that still read 1 has its G in a queue by then. */
	st_sc(&sched.needspinning, 0);
}

void resetspinning(struct m *mp)
{
	int32_t before;

	st_rlx(&mp->spinning, false);
	before = add_sc(&sched.nmspinning, -1);
	CHECK(WS_I6, before > 0);
	/* WS_I5: we were perhaps the only one looking, and submitters relied on us. */
	wakep(mp);
	/* And to poll. */
	if (ld_sc(&sched.npidle) == 0 && netpoll_anywaiters())
		sysmon_polls();
}

/* The work was queued before: sequentially consistent, as sysmon's store and its look at npidle in
 * rest and after it. */
void rousesysmon(struct m *mp)
{
	if (!ld_sc(&sched.sysmonrests) ||
	    (ld_sc(&sched.runqsize) == 0 && !(mp && ld_rlx(&mp->p) && !runqempty(mp->p))))
		return;
	if (xchg_sc(&sched.sysmonrests, false))
		notewakeup(&sched.sysmonnote);
}

static inline void no_p_for_work(struct m *mp)
{
	if (unlikely(ld_sc(&sched.sysmonrests)))
		rousesysmon(mp);
}

/* WS_L1, by WS_I5. The caller queued a G, and then did something sequentially consistent (an
 * exchange of runnext): so either we see here that nobody looks, or the spinner that dropped its
 * mark sees the G.
 *
 * mp holds a P, or is NULL for callers that hold none. */
void wakep(struct m *mp)
{
	struct p *pp;

	if (ld_sc(&sched.nmspinning) != 0)
		return;
	/* All Ps are busy, and whoever goes idle first is told to look (needspinning). The
	 * order of the three loads matters: a spinner gives up its P first, then its mark;
	 * so if it is not counted and saw nothing, its P is. Or the only P there is runs the
	 * caller. */
	if ((ld_sc(&sched.needspinning) != 0 && ld_sc(&sched.npidle) == 0) ||
	    (mp && ld_rlx(&sched.gomaxprocs) == 1)) {
		no_p_for_work(mp);
		return;
	}
	/* No M to be had: whoever goes to sleep next looks, or sysmon. */
	if (unlikely(ld_rlx(&sched.full))) {
		st_sc(&sched.needspinning, 1);
		no_p_for_work(mp);
		return;
	}
	if (!cas_sc(&sched.nmspinning, 0, 1))
		return;
	lock(&sched.lock);
	pp = pidlegetspinning_locked();
	if (!pp) {
		/* In this stay in the lock: a count that outlives it keeps others from waking
		 * anybody, while needspinning is cleared by one who searches already. */
		int32_t before = add_sc(&sched.nmspinning, -1);
		CHECK(WS_I6, before > 0);
	}
	unlock(&sched.lock);
	if (pp)
		startm(pp, true);
	else
		no_p_for_work(mp);
}

void wakep_global(struct m *mp)
{
	if (mp && ld_rlx(&sched.gomaxprocs) == 1) {
		no_p_for_work(mp);
		return;
	}
	/* The fence that unlock is not: a spinner that drops its mark after this has seen the
	 * queue, and one that dropped it before is not counted. */
	add_sc(&sched.nmspinning, 0);
	wakep(mp);
}

/* WS_F4: a G in runnext waits so long at most for an owner that runs on. We look at the clock, or
 * sleep, which takes some 55 µs, for
 *  - one that has yet to begin: about as long as a thread takes natively. Until then its maker has
 *    done what it does right after, and there are programs that rely on it; and the kernel likes to
 *    put whom the maker has woken on the maker's cpu, in its place;
 *  - one whose owner took the one before it from under our eyes, as two do who wake each other. For
 *    so long nobody else is woken in vain, which costs the owner a system call each. */
bool steal_backoff(struct p *victim, struct g *next)
{
	struct m *mp = ld_rlx(&victim->m);
	struct g *running = mp ? ld_rlx(&mp->curg) : NULL;
	uint32_t status = running ? ld_rlx(&running->status) : GIDLE;
	bool fresh = ld_rlx(&next->fresh), kept;

	/* It will be some time before this owner gets to it; one that runs no G is at it. */
	if (!mp || status == GSYSCALL)
		return false;
	if (fresh || ld_rlx(&victim->kept)) {
		ATOMIC(uint32_t) nobody = 0;
		futexsleep(&nobody, 0, SLEEP_NS);
	} else {
		uint64_t until = nanotime() + RUNNEXT_BACKOFF_NS;
		while (nanotime() < until && ld_rlx(&victim->runnext) == next)
			arch_relax();
	}
	kept = ld_rlx(&victim->runnext) != next;
	if (!fresh)
		st_rlx(&victim->kept, kept);
	return kept;
}

static bool is_idle(const struct p *pp)
{
	return ld_sc(&sched.idlepmask[pp->id / 64]) >> (pp->id % 64) & 1;
}

static bool may_have_timers(const struct p *pp)
{
	return ld_rlx(&sched.timerpmask[pp->id / 64]) >> (pp->id % 64) & 1;
}

/* One search over all Ps. *ran: timers ran, so the own queue may hold something. */
static struct g *stealwork(struct m *mp, uint64_t *now, uint64_t *until, bool *ran)
{
	struct p *pp = mp->p;
	struct p **allp = ld_acq(&sched.allp);
	uint32_t at;

	for (int round = 0; round < CHOOSE_STEAL_ROUNDS; round++) {
		bool last = round == CHOOSE_STEAL_ROUNDS - 1;
		struct stealorder order = choose_stealorder(mp,
							    (uint32_t)ld_rlx(&sched.gomaxprocs));

		while (stealorder_next(&order, &at)) {
			struct p *victim = allp[at];
			bool inherit;
			struct g *gp;

			if (ld_rlx(&sched.gcwaiting)) {
				*ran = true;
				return NULL;
			}
			if (victim == pp)
				continue;
			if (last && may_have_timers(victim) &&
			    checktimers(mp, victim, now, until)) {
				*ran = true;
				gp = runqget(pp, &inherit);
				if (gp)
					return gp;
			}
			if (is_idle(victim) || !choose_steals())
				continue;
			gp = runqsteal(pp, victim, last);
			if (gp) {
				count(pp, steals);
				count_by(pp, stolen,
					 1 + ld_rlx(&pp->runqtail) - ld_rlx(&pp->runqhead));
				trace_steal(mp, gp, victim);
				return gp;
			}
		}
	}
	count(pp, stealmisses);
	return NULL;
}

/* After the mark is dropped, without a P: is there anything in any queue? If so, an idle P
 * to run it with. */
static struct p *recheck_runqs(void)
{
	struct p **allp = ld_acq(&sched.allp);
	int32_t n = ld_rlx(&sched.gomaxprocs);

	for (int32_t i = 0; i < n; i++) {
		struct p *pp;
		if (is_idle(allp[i]) || runqempty(allp[i]) || !choose_steals())
			continue;
		lock(&sched.lock);
		pp = pidlegetspinning_locked();
		unlock(&sched.lock);
		return pp;
	}
	return NULL;
}

static struct g *take_global(struct m *mp, int32_t max)
{
	struct g *rest = NULL, *gp;
	int32_t n = 0;

	lock(&sched.lock);
	gp = globrunqgetbatch_locked(mp->p, max, &rest, &n);
	unlock(&sched.lock);
	if (gp)
		count_by(mp->p, globalgets, (uint64_t)n + 1);
	if (n > 0)
		runqputbatch(mp->p, rest, n);
	/* Of those that could run it is nobody's turn. */
	if (!gp && choose_turned() && turns_waits())
		os_yield();
	return gp;
}

/* The WS_I5 dance: drop the mark, full fence, look once more; in that order. Else
 *   we look and find nothing       they queue a G, see a spinner, wake nobody
 *   we drop the mark and sleep     and the G waits for ever.
 * Returns true if mp has a P again and must look; *gp is set if it was found already. */
static bool last_look(struct m *mp, struct g **gp, uint64_t *until)
{
	struct p *pp;
	int32_t before;

	st_rlx(&mp->spinning, false);
	before = add_sc(&sched.nmspinning, -1);
	CHECK(WS_I6, before > 0);

	if (ld_sc(&sched.runqsize) > 0) {
		lock(&sched.lock);
		pp = NULL;
		if (sched.runqsize > 0)
			pp = pidlegetspinning_locked();
		unlock(&sched.lock);
		if (pp) {
			acquirep(mp, pp);
			*gp = take_global(mp, choose_batch());
			becomespinning(mp);
			return true;
		}
	}
	pp = recheck_runqs();
	if (pp) {
		acquirep(mp, pp);
		becomespinning(mp);
		return true;
	}
	uint64_t next = timers_next();
	if (next != 0 && (*until == 0 || next < *until))
		*until = next;
	return false;
}

void wakenetpoller(uint64_t when)
{
	if (ld_sc(&sched.lastpoll) == 0) {
		/* One blocks, or is about to: 0 means that it has not said until when. */
		uint64_t until = ld_sc(&sched.polluntil);
		if (until == 0 || until > when)
			netpoll_break();
	} else {
		/* None does: whoever searches in vain will. */
		if (unlikely(ld_rlx(&sched.full)))
			timers_orphaned(when);
		wakep(NULL);
	}
}

/* The first of those that netpoll found ready, to be run; the others are queued. */
static struct g *run_first(struct m *mp, struct glist *list, bool waited, bool *wake)
{
	struct g *gp = list->head;

	list->head = gp->schedlink;
	list->n--;
	count_by(mp->p, pollready, (uint64_t)list->n + 1);
	*wake = !poll_left(mp, gp, list->n, waited);
	injectglist(mp, list);
	await_parked(gp);
	CHECK(GMP_G4, ld_acq(&gp->status) == GWAITING);
	st_rlx(&gp->status, GRUNNABLE);
	trace_ready(mp, gp);
	return gp;
}

/* Blocks in the poller, which no other M does now, until `until` (0: no limit). True if
 * mp has a P again; *gp may be set, and *wake if somebody else must poll while it runs. */
static bool poll_blocking(struct m *mp, struct g **gp, uint64_t until, bool was_spinning,
			  bool *wake)
{
	struct glist list;
	struct p *pp;
	int64_t delay = -1;
	uint64_t began;
	bool waited;

	/* Published before the last look at the clock and the block: an adder of an earlier
	 * timer reads it after its insertion and breaks the poll. */
	st_sc(&sched.polluntil, until != 0 ? until : UINT64_MAX);
	if (until != 0) {
		uint64_t now = nanotime();
		uint64_t next = timers_next();
		if (next != 0 && next < until)
			until = next;
		delay = until > now ? (int64_t)(until - now) : 0;
	}
	began = arch_cycles();
	list = netpoll(delay);
	waited = poll_waited(began);
	st_sc(&sched.polluntil, 0);
	st_rlx(&sched.now, nanotime());
	st_sc(&sched.lastpoll, ld_rlx(&sched.now));
	lock(&sched.lock);
	pp = pidleget_locked();
	unlock(&sched.lock);
	if (!pp) {
		/* All Ps are busy, perhaps for long: WS_F5. */
		ready_early(&list);
		/* Sysmon left the timers to us, and the poller. */
		st_rlx(&sched.unpolled, true);
		notewakeup(&sched.sysmonnote);
		return false;
	}
	acquirep(mp, pp);
	if (choose_policed() && list.head) {
		count_by(pp, pollready, (uint64_t)list.n);
		injectglist(mp, &list);
	}
	if (list.head) {
		if (ld_sc(&sched.npidle) == 0)
			sysmon_polls();
		*gp = run_first(mp, &list, waited, wake);
		return true;
	}
	if (was_spinning)
		becomespinning(mp);
	return true;
}

/* WS_L3: every way through ends with a G or in stopm, where only a wake-up leads back to the
 * top. */
struct g *findrunnable(struct m *mp, bool *inherit, bool *wake)
{
	struct g *gp;

	*wake = false;
	if (mp->polled != 0)
		poll_back(mp);
top:
	*inherit = false;
	struct p *pp = mp->p;
	uint64_t now = 0, until = 0;
	bool was_spinning;

	/* 1 */
	if (ld_rlx(&sched.gcwaiting)) {
		gcstopm(mp);
		goto top;
	}
	if ((gp = mp->pendingg) != NULL) {
		mp->pendingg = NULL;
		return gp;
	}
	/* 2 */
	checktimers(mp, pp, &now, &until);
	/* However much there is to run. */
	if (unlikely(ld_rlx(&sched.verifydue) != 0)) {
		st_rlx(&sched.verifydue, 0);
		netpoll_verify(VERIFY_AT_ONCE);
	}
	if (unlikely(pp->pollowed)) {
		struct glist list = netpoll(0);
		pp->pollowed = false;
		count_by(pp, pollready, (uint64_t)list.n);
		injectglist(mp, &list);
	}
	/* 3; first of all what sysmon stopped a slice for */
	if (ld_rlx(&pp->urgent) != 0) {
		add_rlx(&pp->urgent, (uint32_t)-1);
		if ((gp = take_global(mp, 1)) != NULL)
			return gp;
	}
	if (choose_globalfirst(pp) && (gp = take_global(mp, 1)) != NULL)
		return gp;
	/* 4 */
	if ((gp = chain_next(mp, pp, inherit)) != NULL)
		return gp;
	/* 5 */
	if (ld_rlx(&sched.runqsize) != 0 && (gp = take_global(mp, choose_batch())) != NULL)
		return gp;
	/* 6 */
	if (netpoll_anywaiters() && ld_rlx(&sched.lastpoll) != 0 && poll_looks()) {
		struct glist list = netpoll(0);
		poll_looked(list.head != NULL);
		if (list.head && choose_policed()) {
			count_by(pp, pollready, (uint64_t)list.n);
			injectglist(mp, &list);
			goto top;
		}
		if (list.head)
			return run_first(mp, &list, false, wake);
	}
	/* 7 */
	if (mp->spinning || choose_spin()) {
		bool ran = false;
		if (!mp->spinning)
			becomespinning(mp);
		gp = stealwork(mp, &now, &until, &ran);
		if (gp)
			return gp;
		if (ran)
			goto top;
	}
	/* 8 */
	lock(&sched.lock);
	if (ld_rlx(&sched.gcwaiting)) {
		unlock(&sched.lock);
		goto top;
	}
	if (sched.runqsize != 0) {
		unlock(&sched.lock);
		if ((gp = take_global(mp, choose_batch())) != NULL)
			return gp;
		goto top;
	}
	if (!mp->spinning && ld_sc(&sched.needspinning) != 0) {
		becomespinning(mp);
		unlock(&sched.lock);
		goto top;
	}
	releasep(mp);
	pidleput_locked(pp);
	unlock(&sched.lock);
	/* 9 */
	was_spinning = mp->spinning;
	if (was_spinning && last_look(mp, &gp, &until)) {
		if (gp)
			return gp;
		goto top;
	}
	/* 10 */
	if ((netpoll_anywaiters() || until != 0) && xchg_sc(&sched.lastpoll, 0) != 0) {
		if (poll_blocking(mp, &gp, until, was_spinning, wake)) {
			if (gp)
				return gp;
			goto top;
		}
	} else {
		/* Who polls made sure of the registrations that were relied on before it
		 * blocked; those relied on since are ours. */
		netpoll_verify(INT32_MAX);
		/* 11 */
		uint64_t polling = ld_sc(&sched.polluntil);
		if (until != 0 && (polling == 0 || polling > until))
			netpoll_break();
	}
	/* 12 */
	stopm(mp);
	goto top;
}
