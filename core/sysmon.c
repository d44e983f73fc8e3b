/* The monitor: a kernel thread without a P that keeps the promises nobody else can (WS_L2):
 * it retakes Ps from Ms that block (retake.c), stops slices that are over, runs timers and polls
 * when every P is deep in a slice, and starts an M when work waits and nobody looks.
 *
 * It sleeps 20 µs while there is something to do, longer in proportion to how long there was not,
 * up to 10 ms, and without end once every P has been idle for a while; whoever takes a P from the
 * idle list wakes it (plist.c). */
#include "asleep.h"
#include "core.h"
#include "guest.h"
#include "mthread.h"
#include "policies/turns.h"
#include "poller.h"
#include "preempt.h"
#include "report.h"
#include "sched.h"
#include "trace.h"
#include "view.h"

enum {
	DELAY_MIN_NS = 20 * 1000,
	DELAY_MAX_NS = 10 * 1000 * 1000,
	/* While work waits: three looks find a P that is held by one that sleeps. */
	DELAY_WAITS_NS = 3 * 1000 * 1000,
	/* An eighth of the time since there was something to take: so what comes is found late by
	 * no more than that, and each wake is paid for by time without. */
	DELAY_PART = 8,
	POLL_NS = 10 * 1000 * 1000,
	/* How long sysmon goes on looking each ms (POLL_EARLY_NS), which it does while Gs wait for
	 * descriptors and every P is deep in a slice: for who was served is soon back. */
	POLL_WATCH_NS = 20 * 1000 * 1000,
	/* So long it looks for guests after one. */
	SERVE_WATCH_NS = 20 * 1000 * 1000,
	/* A due timer whose P has not looked by then is sysmon's. */
	TIMER_SLACK_NS = 50 * 1000,
	DEEP_AFTER_NS = 5 * 1000 * 1000,
	OFFP_NS = 200 * 1000 * 1000,
	/* So often roused in vain, it is not for so many rests. */
	ROUSES = 4,
	UNROUSED = 16,
	TIMERSLACK_NS = 1000,
};

/* So many times in a row; from ROUSES on it counts rests in which that may not be. */
static int rousedinvain;

/* Those that somebody wants out of whatever they are blocked in: a signal that comes just
 * before the call does not end it, so they are looked after until they sleep. True if one of
 * them may yet fall asleep; *called: of how many the call was ended that they were not called out
 * of before. */
static bool check_pursued(int *called)
{
	bool any = false;

	*called = 0;
	if (likely(ld_sc(&sched.npursued) == 0))
		return false;
	for (struct m *mp = ld_acq(&sched.allm); mp; mp = mp->alllink) {
		struct g *gp = ld_acq(&mp->curg);
		int32_t tid = ld_rlx(&mp->tid);
		uint32_t tick = ld_rlx(&mp->syscalltick) + 1;
		if (!gp || !ld_sc(&gp->pursued))
			continue;
		/* Most calls are short. */
		if (mp->pursuedtick != tick) {
			mp->pursuedtick = tick;
			any = true;
		} else if (!os_threadasleep(tid)) {
			any = true;
		} else if (pursues(gp, os_threadpc(tid))) {
			any = true;
			*called += mp->calledtick != tick;
			mp->calledtick = tick;
			preempt_callout(mp, gp);
		}
	}
	return any;
}

bool ready_early(struct glist *list)
{
	int32_t wanted = list->n;
	struct g *gp = list->head;

	if (wanted == 0)
		return false;
	if (ld_sc(&sched.npidle) > 0 || choose_policed()) {
		injectglist(NULL, list);
		return false;
	}
	struct gqueue q = { NULL, NULL };
	while (gp) {
		struct g *rest = gp->schedlink;
		await_parked(gp);
		CHECK(GMP_G4, ld_acq(&gp->status) == GWAITING);
		st_rlx(&gp->status, GRUNNABLE);
		trace_ready(NULL, gp);
		gqueue_push(&q, gp);
		gp = rest;
	}
	lock(&sched.lock);
	globrunqputearly_locked(&q, wanted);
	unlock(&sched.lock);
	wakep_global(NULL);
	return true;
}

/* Does one wait, or may one soon? */
static bool serves(uint64_t now)
{
	return ld_rlx(&sched.early) > 0 || ld_sc(&sched.guestsat) + SERVE_WATCH_NS > now;
}

/* Told and looked at as by sysmon_polls. */
void sysmon_serves(bool at_once)
{
	uint64_t now = nanotime();

	st_sc(&sched.guestsat, now);
	if (at_once)
		/* Release: pairs with the acquire in serve_early. */
		st_rel(&sched.guestwaits, true);
	if (at_once || ld_sc(&sched.sysmonwake) > now + CHOOSE_EARLY_NS + TIMER_SLACK_NS)
		notewakeup(&sched.sysmonnote);
}

/* May the slice of pp be ended before its time? For a guest that of one that computes at any. */
static bool may_end(struct p *pp, uint64_t now, bool guest)
{
	struct m *mp = ld_acq(&pp->m);
	struct g *gp = mp ? ld_acq(&mp->curg) : NULL;

	return gp && pp->mon.schedtick == ld_rlx(&pp->schedtick) &&
	       ((guest && choose_computes(gp)) || now - pp->mon.schedwhen >= choose_early(gp));
}

/* Ends slices for the sake of those at the head of the global queue. A request may be lost: it
 * names a slice that ends by itself just then, or finds the G where it must not be stopped. So a P
 * that owes its next choice is asked again, until it has made it. */
static void serve_early(uint64_t now)
{
	int32_t n = ld_acq(&sched.gomaxprocs), wanting;
	/* Before the look how many wait: it was raised after. */
	bool guest = ld_rlx(&sched.guestwaits) && xchg_acq(&sched.guestwaits, false);

	wanting = ld_rlx(&sched.early);
	if (wanting == 0)
		return;
	for (int32_t i = 0; i < n; i++)
		wanting -= (int32_t)ld_rlx(&sched.allp[i]->urgent);
	for (int32_t i = 0; i < n; i++) {
		struct p *pp = sched.allp[i];
		bool owes = ld_rlx(&pp->urgent) != 0;
		if ((!owes && wanting <= 0) || ld_rlx(&pp->status) != PRUNNING ||
		    !may_end(pp, now, guest) || spare_blocked(pp))
			continue;
		/* A guest may have asked since. */
		if (!owes && cas_rlx(&pp->urgent, 0, 1)) {
			wanting--;
			add_rlx(&sched.nopstats.guests, guest);
		}
		/* A signal would break the call of one that sleeps. */
		if (!retakeblocked(pp))
			preemptslice(pp, pp->mon.schedtick);
	}
}

/* While it holds Gs that are in no heap and in no queue, sysmon counts as one that runs: else
 * the last M to fall asleep would call them dead. */
static void hold_gs(int32_t holds)
{
	lock(&sched.lock);
	sched.nmsys -= holds;
	if (holds < 0)
		checkdead_locked();
	unlock(&sched.lock);
}

/* WS_F5: what timers are overdue, and what the network has for us, when no P sees to it. */
static void run_late(uint64_t now, bool deep)
{
	static uint64_t lastverify;
	struct glist list = { NULL, 0, NULL };
	uint64_t lastpoll = ld_rlx(&sched.lastpoll), next = timers_next();
	int32_t n = ld_acq(&sched.gomaxprocs);

	if (next != 0 && next + TIMER_SLACK_NS <= now) {
		hold_gs(1);
		for (int32_t i = 0; i < n; i++) {
			struct p *pp = sched.allp[i];
			uint64_t first = ld_acq(&pp->timers.first);
			if (first != 0 && first + TIMER_SLACK_NS <= now) {
				int ran = runtimers_nop(pp, now, &list);
				add_rlx(&sched.nopstats.timersfired, (uint64_t)ran);
			}
		}
		ready_early(&list);
		hold_gs(-1);
	}
	/* By an M: a registration is made sure of in the program's own table. */
	if (netpoll_anyunsure() && now - lastverify > POLL_NS) {
		lastverify = now;
		st_rlx(&sched.verifydue, 1);
		if (may_end(sched.allp[0], now, false) && !spare_blocked(sched.allp[0]) &&
		    !retakeblocked(sched.allp[0]))
			preemptone(sched.allp[0]);
	}
	if (lastpoll != 0 && netpoll_anywaiters() &&
	    now - lastpoll > (deep ? POLL_EARLY_NS : POLL_NS) &&
	    cas_rlx(&sched.lastpoll, lastpoll, now)) {
		hold_gs(1);
		list = netpoll(0);
		add_rlx(&sched.nopstats.pollready, (uint64_t)list.n);
		ready_early(&list);
		hold_gs(-1);
	}
}

/* Is it for sysmon to look at the poller: does somebody wait, every P do something else, and nobody
 * block there? After a second such look, or when told, also while that is not so for a moment. */
static bool polls(uint64_t now)
{
	static uint64_t seen, since;

	if (!netpoll_anywaiters() || ld_sc(&sched.lastpoll) == 0 ||
	    (ld_sc(&sched.npidle) > 0 && !ld_rlx(&sched.full)))
		since = 0;
	else if (since == 0)
		since = now;
	else if (now - since >= POLL_EARLY_NS / 2)
		seen = now;
	if (ld_sc(&sched.unpolled) && xchg_acq(&sched.unpolled, false))
		seen = now;
	return since != 0 || now - seen < POLL_WATCH_NS;
}

/* WS_F5. The caller waits for a descriptor, or may be about to, and others have the P; sysmon may
 * have seen the poller in good hands and be about to sleep for ten times as long:
 *   we: wait, or leave the poller        sysmon: says when it will wake
 *       look when it will wake                   looks whether somebody waits and nobody polls
 * one of the two sees the other. Once told, sysmon goes on for a while, so this is rare. */
void sysmon_polls(void)
{
	if (ld_sc(&sched.lastpoll) == 0 ||
	    ld_sc(&sched.sysmonwake) <= nanotime() + POLL_EARLY_NS + TIMER_SLACK_NS)
		return;
	st_rlx(&sched.unpolled, true);
	notewakeup(&sched.sysmonnote);
}

/* As there: one of the two sees the other. */
bool sysmon_watches(void)
{
	uint64_t wake;

	st_sc(&sched.unpolled, true);
	wake = ld_sc(&sched.sysmonwake);
	/* 0: it sleeps deeply, or has just begun; or there is none. */
	return wake != 0 && wake <= nanotime() + POLL_EARLY_NS + TIMER_SLACK_NS;
}

/* True if every P is busy with a slice that is not fresh. */
static bool all_deep(uint64_t now)
{
	int32_t n = ld_acq(&sched.gomaxprocs);

	if (ld_rlx(&sched.npidle) != 0)
		return false;
	for (int32_t i = 0; i < n; i++) {
		struct p *pp = sched.allp[i];
		if (pp->mon.schedtick != ld_rlx(&pp->schedtick) ||
		    now - pp->mon.schedwhen < CHOOSE_EARLY_NS)
			return false;
	}
	return true;
}

/* L2: work, an idle P, and nobody who looks. It happens when an M could not be had; or when nobody
 * polls, for who left the poller was to be back before (brief.c). */
static void start_if_forgotten(uint64_t now)
{
	int32_t n = ld_acq(&sched.gomaxprocs);
	bool work = ld_sc(&sched.runqsize) > 0;

	if (ld_sc(&sched.npidle) == 0 || ld_sc(&sched.nmspinning) > 0)
		return;
	for (int32_t i = 0; i < n && !work; i++)
		work = !runqempty(sched.allp[i]);
	if (work || poll_forgotten(now))
		wakep(NULL);
}

/* The earlier of the two; 0: never. */
static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a == 0 || (b != 0 && b < a) ? b : a;
}

/* Of all Ps. */
static uint64_t slices_begun(void)
{
	int32_t n = ld_acq(&sched.gomaxprocs);
	uint64_t sum = 0;

	for (int32_t i = 0; i < n; i++)
		sum += ld_rlx(&sched.allp[i]->schedtick);
	return sum;
}

/* How often it is to come by though all is idle; 0: it need not. */
static uint64_t comes_by(void)
{
	uint64_t every = choose_turned() ? ASLEEP_SOON_NS : asleep_every(), next = gfree_next();

	return earlier(every, next);
}

/* All was idle: as long as that lasts, or till work waits (rousesysmon), it need not look. Where
 * the last times nothing was found to be done about that, it is not told for a while. */
static bool rest(uint64_t idlesince)
{
	if (idlesince == 0 || (rousedinvain >= ROUSES && ++rousedinvain < ROUSES + UNROUSED))
		return false;
	if (rousedinvain >= ROUSES)
		rousedinvain = ROUSES - 1;
	/* Whoever has a P has taken it before it queues work, and looks at this after. */
	st_sc(&sched.sysmonrests, true);
	return true;
}

/* Sleeps until there may be something to do. True if it was the deep sleep, or a rest that was
 * broken off. */
static bool sleep_until_due(uint64_t delay, uint64_t idlesince, bool offp, uint32_t pursuits)
{
	uint64_t now = nanotime(), until = now + delay, next;
	bool rests;

	if (idlesince != 0 && now - idlesince > DEEP_AFTER_NS && !report_ticks()) {
		bool sleep;
		lock(&sched.lock);
		sleep = (ld_sc(&sched.npidle) == ld_rlx(&sched.gomaxprocs) &&
			 sched.runqsize == 0) ||
			ld_rlx(&sched.gcwaiting);
		if (sleep) {
			/* Under the lock that every taker of an idle P holds: it sees this. */
			noteclear(&sched.sysmonnote);
			st_sc(&sched.sysmonwait, 1);
		}
		unlock(&sched.lock);
		/* Since those were looked at. */
		if (sleep &&
		    (ld_sc(&sched.pursuits) != pursuits || view_ordered() || netpoll_owes())) {
			st_sc(&sched.sysmonwait, 0);
			sleep = false;
		}
		if (sleep) {
			uint64_t every = comes_by();
			st_sc(&sched.sysmonwake, 0);
			/* The M that polls sees to timers; there may be none for want of
			 * threads. */
			next = ld_sc(&sched.lastpoll) != 0 ? timers_next() : 0;
			/* Nobody tells sysmon when one that blocks without a P comes back; more
			 * of them than Ps must not run for long. */
			if (offp)
				next = earlier(next, now + OFFP_NS);
			/* Nor of a kernel thread that is none of ours and has ended. */
			if (every != 0)
				next = earlier(next, now + every);
			/* What was used since it was asked, in a call or after. */
			next = earlier(next, mthread_clocked(now, true));
			sigopen_deep();
			if (next == 0)
				notesleep(&sched.sysmonnote);
			else if (next > now)
				notetsleep(&sched.sysmonnote, (int64_t)(next - now));
			sigopen_awake();
			st_sc(&sched.sysmonwait, 0);
			noteclear(&sched.sysmonnote);
			return true;
		}
	}
	/* Published, then looked at: an adder of an earlier timer does the reverse, and so does
	 * who waits for a descriptor (sysmon_polls). */
	st_sc(&sched.sysmonwake, until);
	if (until > now + POLL_EARLY_NS && polls(now)) {
		until = now + POLL_EARLY_NS;
		st_sc(&sched.sysmonwake, until);
	}
	if (until > now + CHOOSE_EARLY_NS && serves(now)) {
		until = now + CHOOSE_EARLY_NS;
		st_sc(&sched.sysmonwake, until);
	}
	next = ld_sc(&sched.orphans) ? timers_next() : timers_nextbusy();
	next = earlier(next != 0 ? next + TIMER_SLACK_NS : 0, mthread_clocked(now, false));
	if (next != 0 && next < until) {
		until = next;
		if (until < now + DELAY_MIN_NS)
			until = now + DELAY_MIN_NS;
		st_sc(&sched.sysmonwake, until);
	}
	rests = rest(idlesince);
	if (rests && ld_sc(&sched.npidle) != ld_rlx(&sched.gomaxprocs)) {
		until = now + DELAY_MIN_NS;
		st_sc(&sched.sysmonwake, until);
	}
	if (notetsleep(&sched.sysmonnote, (int64_t)(until - now)))
		noteclear(&sched.sysmonnote);
	if (!rests || xchg_sc(&sched.sysmonrests, false))
		return false;
	rousedinvain++;
	return true;
}

/* How long it may sleep between two rounds while a P is busy. */
static uint64_t longest(bool waits)
{
	uint64_t slice = choose_slice();

	return !waits ? DELAY_MAX_NS : slice < DELAY_WAITS_NS ? slice : DELAY_WAITS_NS;
}

void sysmon(void)
{
	uint64_t idlesince = 0, slices = 0, next = UINT64_MAX, taken = nanotime();
	uint32_t pursuits = 0;
	int called;
	bool pursued = false, deep = false, offp = false, waits = false;

	os_timerslack(TIMERSLACK_NS);
	mthread_watched();
	for (;;) {
		bool slept;
		uint64_t now = nanotime(), delay = (now - taken) / DELAY_PART;

		if (delay < DELAY_MIN_NS)
			delay = DELAY_MIN_NS;
		/* Nothing to retake: one longer sleep, in case it was a short pause. */
		if (idlesince != 0 || delay > longest(waits))
			delay = longest(waits);
		slept = sleep_until_due(delay < next ? delay : next, pursued ? 0 : idlesince, offp,
					pursuits);
		mthread_accept();
		netpoll_pay();
		if (choose_policed())
			own_watch();
		now = nanotime();
		sigopen_look(now);
		if (choose_turned())
			turns_watch(now);
		if (slept ||
		    (unlikely(ld_rlx(&sched.sysmonhurry)) && xchg_acq(&sched.sysmonhurry, false)))
			taken = now;
		/* Who is idle now and then, as most servers are, is not to wake it each time. */
		if (ld_sc(&sched.npidle) != ld_rlx(&sched.gomaxprocs)) {
			idlesince = 0;
		} else if (idlesince == 0 || slices_begun() != slices) {
			idlesince = now;
			slices = slices_begun();
		}
		/* Whoever leaves its call needs no other M for its P. */
		pursuits = ld_sc(&sched.pursuits);
		pursued = check_pursued(&called);
		if (retakeall(now, &waits, &next) + called != 0) {
			taken = now;
			rousedinvain = 0;
		}
		offp = check_offp();
		/* Later than all that was seen to begin. */
		now = nanotime();
		deep = all_deep(now);
		run_late(now, deep);
		serve_early(now);
		start_if_forgotten(now);
		report_tick(now);
		asleep_round(now);
		gfree_age(now);
		view_round(now);
	}
}
