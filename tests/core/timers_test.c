/* Timers and sleeps: the heap against a model, then sleepers on the running core. */
#include <string.h>

#include "host.h"
#include "sched.h"

enum { MS = 1000 * 1000, SECOND = 1000 * MS, MONO = 1, REAL = 0, EINTR_ = 4 };

/* ---- the heap, with an M and Ps that do not run ---- */

enum { TIMERS = 2000 };

static struct m mp;
static struct p ps[2];
static struct g gs[TIMERS];
static uint64_t rng;

static void fresh(void)
{
	rng = test_seed() | 1;
	for (int i = 0; i < 2; i++)
		EXPECT_EQ(timers_init(&ps[i].timers, i), 0);
	mp.p = &ps[0];
	for (int i = 0; i < TIMERS; i++) {
		gs[i].goid = (uint64_t)i;
		gs[i].status = GWAITING;
	}
}

static void arm(struct g *gp, uint64_t when)
{
	EXPECT_EQ(timer_arm(&mp, &gp->timer, when, wait_begin(gp), gp), 0);
}

static bool armed(struct g *gp)
{
	return gp->timer.heap != NULL;
}

static bool pending(struct g *gp)
{
	return wait_result(gp) == WAIT_PENDING;
}

static void check_heap(const struct timers *ts)
{
	for (uint32_t i = 0; i < ts->n; i++) {
		const struct timer *t = ts->heap[i];
		EXPECT_EQ(t->index, i);
		EXPECT(t->heap == ts);
		EXPECT(i == 0 || ts->heap[(i - 1) / 4]->when <= t->when);
	}
	EXPECT_EQ(ts->first, ts->n ? ts->heap[0]->when : 0);
	EXPECT(ts->n <= ts->cap);
}

/* Runs what is due at now, and compares with all timers that should be. */
static int expire(uint64_t now)
{
	struct glist list = { NULL, 0, NULL };
	uint64_t last = 0;
	int due = 0, n = 0;

	for (int i = 0; i < TIMERS; i++)
		due += armed(&gs[i]) && gs[i].timer.when <= now;
	EXPECT_EQ(runtimers_nop(&ps[0], now, &list), due);
	EXPECT_EQ(list.n, due);
	for (struct g *gp = list.head; gp; gp = gp->schedlink, n++) {
		EXPECT(gp->timer.when <= now && gp->timer.when >= last);
		EXPECT(!armed(gp));
		EXPECT_EQ(wait_result(gp), WAIT_TIMEOUT);
		last = gp->timer.when;
	}
	EXPECT_EQ(n, due);
	return n;
}

TEST(random_arms_and_disarms_leave_a_heap)
{
	uint64_t now = 1;
	uint32_t most = 0;

	fresh();
	/* More arms than disarms, then fewer; few deadlines, so that many are equal. */
	for (int step = 0; step < 200000; step++) {
		struct g *gp = &gs[random_below(&rng, TIMERS)];
		if (!armed(gp) && random_below(&rng, 100) < (step < 100000 ? 90 : 10))
			arm(gp, now + random_below(&rng, 1000));
		else if (random_below(&rng, 4) == 0)
			timer_disarm(&gp->timer);
		if (ps[0].timers.n > most)
			most = ps[0].timers.n;
		if (step % 64 == 0) {
			now += random_below(&rng, 10);
			expire(now);
			check_heap(&ps[0].timers);
		}
	}
	/* It has grown, more than once. */
	EXPECT(most > 1100);
	expire(UINT64_MAX);
	EXPECT_EQ(ps[0].timers.n, 0);
	EXPECT_EQ(ps[0].timers.first, 0);
}

TEST(timers_end_in_the_order_of_their_deadlines)
{
	fresh();
	for (int i = 0; i < TIMERS; i++)
		arm(&gs[i], 1 + random_below(&rng, 100000));
	check_heap(&ps[0].timers);
	EXPECT_EQ(expire(UINT64_MAX), TIMERS);
}

TEST(a_disarmed_timer_does_not_fire)
{
	fresh();
	for (int i = 0; i < TIMERS; i++)
		arm(&gs[i], 1 + random_below(&rng, 1000));
	for (int i = 0; i < TIMERS; i += 2) {
		timer_disarm(&gs[i].timer);
		/* Once more does no harm. */
		timer_disarm(&gs[i].timer);
		check_heap(&ps[0].timers);
	}
	EXPECT_EQ(expire(UINT64_MAX), TIMERS / 2);
	for (int i = 0; i < TIMERS; i += 2)
		EXPECT(pending(&gs[i]));
}

TEST(a_late_timer_does_not_end_a_later_wait)
{
	struct glist list = { NULL, 0, NULL };

	fresh();
	arm(&gs[0], 100);
	EXPECT(wait_claim(&gs[0], gs[0].wait >> WAIT_BITS, WAIT_READY));
	wait_begin(&gs[0]);
	EXPECT_EQ(runtimers_nop(&ps[0], 200, &list), 1);
	EXPECT(list.head == NULL);
	EXPECT(pending(&gs[0]));
}

TEST(moved_timers_fire_where_they_are_and_can_be_disarmed_there)
{
	fresh();
	for (int i = 0; i < TIMERS; i++) {
		mp.p = &ps[i % 2];
		arm(&gs[i], 1 + random_below(&rng, 1000));
	}
	EXPECT_EQ(timers_reserve(&ps[0].timers, ps[1].timers.n), 0);
	timers_move(&ps[1].timers, &ps[0].timers);
	EXPECT_EQ(ps[0].timers.n, TIMERS);
	EXPECT_EQ(ps[1].timers.n, 0);
	check_heap(&ps[0].timers);
	check_heap(&ps[1].timers);
	timer_disarm(&gs[0].timer);
	timer_disarm(&gs[1].timer);
	EXPECT_EQ(expire(UINT64_MAX), TIMERS - 2);
}

/* ---- sleepers ---- */

static struct group grp;
static uint64_t epoch;

/* Sleepers on one P, in the order in which they should wake. */
enum { SLEEPERS = 300, STANDSTILL_NS = 100 * MS };

/* Longer than any machine keeps one from the cpu. */
static const uint64_t LATE_NS = 20 * (uint64_t)SECOND;

static ATOMIC(bool) awake[SLEEPERS];
static ATOMIC(bool) in_turn;
static ATOMIC(uint64_t) last_awake;
static ATOMIC(uint32_t) begun, told;

static void sleep_by_rank(void *arg)
{
	uintptr_t rank = (uintptr_t)arg;
	uint64_t at;

	add_sc(&begun, 1);
	while (ld_acq(&told) == 0)
		futex_wait(&told, 0, (uint32_t)FUTEX_ANY, NULL, 0);
	at = epoch + rank * MS;
	EXPECT_EQ(gosleep(MONO, at), 0);
	EXPECT(now_ns() >= at);
	EXPECT(now_ns() - at < LATE_NS);
	st_rlx(&awake[rank], true);
	/* Where they come in a heap after a standstill, those that sysmon put into the global queue
	 * are behind later ones in the local one. */
	if (ld_rlx(&in_turn) &&
	    now_ns() - (at < ld_rlx(&last_awake) ? at : ld_rlx(&last_awake)) > STANDSTILL_NS)
		st_rlx(&in_turn, false);
	st_rlx(&last_awake, now_ns());
	/* Whoever was due a quarter of a second earlier has been run before. On several Ps one may
	 * be on a kernel thread that has no cpu meanwhile. */
	for (uintptr_t i = 0; ld_rlx(&in_turn) && i + 250 <= rank; i++)
		EXPECT(ld_rlx(&awake[i]));
	group_done(&grp);
}

static void all_sleep(void)
{
	st_rlx(&begun, 0);
	st_rlx(&told, 0);
	grp.left = SLEEPERS;
	/* Each once, in an order that has nothing to do with the deadlines. */
	for (uintptr_t i = 0; i < SLEEPERS; i++) {
		st_rlx(&awake[i], false);
		go(sleep_by_rank, (void *)(i * 77 % SLEEPERS));
	}
	while (ld_acq(&begun) != SLEEPERS)
		gosched();
	epoch = now_ns() + 20 * MS;
	st_rlx(&last_awake, epoch);
	st_rel(&told, 1);
	futex_wake(&told, FUTEX_ANY, (uint32_t)FUTEX_ANY, 0);
	group_wait(&grp);
}

TEST(many_sleepers_wake_when_due_on_one_p)
{
	start(1);
	/* Until the machine has let them. */
	do {
		st_rlx(&in_turn, true);
		all_sleep();
	} while (!ld_rlx(&in_turn));
}

TEST(many_sleepers_wake_when_due_on_four_ps)
{
	start(4);
	all_sleep();
}

TEST(a_sleep_in_the_past_returns_at_once)
{
	struct stats before, after;

	start(1);
	stats_sum(&before);
	EXPECT_EQ(gosleep(MONO, 0), 0);
	EXPECT_EQ(gosleep(MONO, now_ns() - 1), 0);
	EXPECT_EQ(gosleep(REAL, os_clock(REAL)), 0);
	stats_sum(&after);
	EXPECT_EQ(after.parks, before.parks);
}

static void sleep_on(int clock, uint64_t ns)
{
	uint64_t at = os_clock(clock) + ns;

	EXPECT_EQ(gosleep(clock, at), 0);
	EXPECT(os_clock(clock) >= at);
	EXPECT(os_clock(clock) - at < LATE_NS);
}

TEST(sleeps_on_other_clocks_end_by_those_clocks)
{
	enum { BOOTTIME = 7 };

	start(2);
	for (uint64_t ns = 1000; ns < 100 * MS; ns *= 7) {
		sleep_on(REAL, ns);
		sleep_on(MONO, ns);
		sleep_on(BOOTTIME, ns);
	}
}

/* ---- interrupts ---- */

static ATOMIC(uint32_t) interrupted; /* sleeps that returned -EINTR */
static ATOMIC(bool) stop;

static void sleep_long(void *arg)
{
	(void)arg;
	EXPECT_EQ(gosleep(MONO, now_ns() + 1000ull * SECOND), -EINTR_);
	add_rlx(&interrupted, 1);
	/* The next one is a wait of its own. */
	EXPECT_EQ(gosleep(MONO, now_ns() + MS), 0);
	group_done(&grp);
}

TEST(an_interrupt_ends_a_sleep_once)
{
	struct g *gp;

	/* Else sysmon might stop us before we ask. */
	start_with(1, without_sysmon);
	for (int i = 0; i < 100; i++) {
		grp.left = 1;
		gp = go(sleep_long, NULL);
		EXPECT(!gointerrupt(gp)); /* it does not sleep yet */
		until_waiting(gp);
		EXPECT(gointerrupt(gp));
		EXPECT(!gointerrupt(gp));
		group_wait(&grp);
		EXPECT_EQ(interrupted, i + 1);
	}
	/* No timer of theirs is left. */
	EXPECT_EQ(sched.allp[0]->timers.n, 0);
}

static void sleep_often(void *arg)
{
	uint64_t state = (uintptr_t)arg * 0x9e3779b97f4a7c15u + test_seed();

	/* And until one has been interrupted, however late whoever does that is. */
	for (int i = 0; i < 300 || !ld_rlx(&stop); i++) {
		int r = gosleep(MONO, now_ns() + random_below(&state, 100) * 1000);
		EXPECT(r == 0 || r == -EINTR_);
		if (r != 0)
			add_rlx(&interrupted, 1);
	}
	group_done(&grp);
}

TEST(interrupts_and_deadlines_that_race_end_each_sleep_once)
{
	enum { NAPPERS = 40 };
	struct g *nappers[NAPPERS];
	uint32_t won = 0;

	start(4);
	rng = test_seed() | 1;
	grp.left = NAPPERS;
	for (uintptr_t i = 0; i < NAPPERS; i++)
		nappers[i] = go(sleep_often, (void *)(i + 1));
	while (ld_acq(&grp.left) != 0) {
		won += gointerrupt(nappers[random_below(&rng, NAPPERS)]);
		st_rlx(&stop, won > 0);
		if (random_below(&rng, 16) == 0)
			gosched();
	}
	EXPECT_EQ(interrupted, won);
	for (int i = 0; i < 4; i++)
		EXPECT_EQ(sched.allp[i]->timers.n, 0);
}

/* ---- fairness ---- */

static void wake_soon_for_ever(void *arg)
{
	(void)arg;
	while (!ld_rlx(&stop))
		EXPECT_EQ(gosleep(MONO, now_ns() + 5000), 0);
	group_done(&grp);
}

static void yield_for_ever(void *arg)
{
	(void)arg;
	while (!ld_rlx(&stop))
		goyield();
	group_done(&grp);
}

static void some_slices(void *arg)
{
	(void)arg;
	for (int i = 0; i < 100; i++)
		gosched();
	group_done(&grp);
}

/* As Go's TestTimerFairness: neither kind keeps the other from the one P. */
TEST(a_storm_of_timers_starves_no_g)
{
	start(1);
	grp.left = 3;
	for (int i = 0; i < 2; i++)
		go(wake_soon_for_ever, NULL);
	go(some_slices, NULL);
	while (ld_acq(&grp.left) != 2)
		gosched();
	st_rlx(&stop, true);
	group_wait(&grp);
}

TEST(a_storm_of_yields_starves_no_timer)
{
	start(1);
	grp.left = 2;
	for (int i = 0; i < 2; i++)
		go(yield_for_ever, NULL);
	for (int i = 0; i < 20; i++)
		sleep_on(MONO, MS);
	st_rlx(&stop, true);
	group_wait(&grp);
}

static ATOMIC(uint32_t) sleeping;

static bool has_timers(struct timers *ts)
{
	bool has;

	hold(&ts->lock);
	has = ts->n > 0;
	let_go(&ts->lock);
	return has;
}

static void sleep_beside_a_hog(void *arg)
{
	(void)arg;
	sleep_on(MONO, 5 * MS);
	add_rlx(&sleeping, (uint32_t)-1);
	group_done(&grp);
}

/* Until one of its sleepers has its timer on the P of the hog, which will not look there. One that
 * is over before it is seen to sleep is no such. */
static void hog_beside_sleepers(void *arg)
{
	(void)arg;
	do {
		add_rlx(&sleeping, 1);
		add_rlx(&grp.left, 1);
		struct g *gp = go(sleep_beside_a_hog, NULL);
		while (ld_acq(&gp->status) != GWAITING && ld_rlx(&sleeping) != 0)
			gosched();
	} while (!has_timers(&getg()->m->p->timers));
	while (ld_rlx(&sleeping) != 0)
		arch_relax();
	group_done(&grp);
}

TEST(a_due_timer_does_not_wait_for_its_busy_p)
{
	/* Who would fire it otherwise. */
	start_with(2, without_sysmon);
	for (int i = 0; i < 20; i++) {
		grp.left = 1;
		go(hog_beside_sleepers, NULL);
		group_wait(&grp);
	}
}
