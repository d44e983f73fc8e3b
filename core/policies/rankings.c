/* The policies that are built in, each by the ranks that it gives. */
#include "policies/plan.h"

enum {
	MS = 1000 * 1000,
	/* Of those that draw lots: only one that spins for another, at no point of its own, is to
	 * be stopped by the clock. */
	LONG_SLICE_NS = 50 * MS,
	CFS_SLICE_NS = 3 * MS,
	CHAOS_LEAST_NS = 100 * 1000,
	CHAOS_MOST_NS = 10 * MS,
	CHAOS_EPOCH = 200,
};

/* What they remember of all. */
static struct {
	uint64_t least_ran; /* cfs: the most of what those had who were picked */
	uint64_t points, falls, stops; /* pct */
	uint32_t changes;
	uint64_t epoch, events, often; /* chaos */
} all;

void rankings_begin(void)
{
	all = (__typeof__(all)){ 0 };
}

/* ---- fifo, rr, lifo ---- */

static void by_age(struct plan *plan)
{
	plan->key = 0;
}

/* Who had its turn and gave way, or had to, goes behind all others. */
static void by_youth(struct plan *plan)
{
	bool had = plan->t.reason == HEDDLE_SLICE || plan->t.reason == HEDDLE_YIELD;

	plan->key = had ? UINT64_MAX : UINT64_MAX - 1 - plan->order;
}

/* ---- random: each that is runnable is as likely to go next as any other ---- */

static bool lot_point(struct plan *plan, const struct plan *least)
{
	(void)plan;
	return least;
}

/* ---- cfs: as much for each as for any; who slept gets no more than a slice's credit ---- */

static void by_share(struct plan *plan)
{
	uint64_t floor = all.least_ran > CFS_SLICE_NS ? all.least_ran - CFS_SLICE_NS : 0;

	/* key keeps the share; `slice` none of its own; mine[0] what of t.ran is in it. */
	if (plan->t.reason == HEDDLE_NEW)
		plan->key = all.least_ran;
	else
		plan->key += plan->t.ran - plan->t.mine[0].n;
	plan->t.mine[0].n = plan->t.ran;
	if (plan->key < floor)
		plan->key = floor;
}

static void share_picked(struct plan *plan)
{
	if (plan->key > all.least_ran)
		all.least_ran = plan->key;
}

/* ---- pct: Burckhardt and others, "A randomized scheduler with probabilistic guarantees of finding
 * bugs" (ASPLOS 2010): priorities by lot, the highest runs; at depth - 1 of the all.points, chosen
 * by lot among so many steps, who runs falls below all others ---- */

static const uint64_t FALLEN = (uint64_t)1 << 62, STOPPED = (uint64_t)1 << 63;

static void by_priority(struct plan *plan)
{
	if (plan->t.reason == HEDDLE_NEW && plan->key == 0)
		plan->key = 1 + plan_lot() % (FALLEN - 1);
	/* It waits, perhaps, for one that it keeps from running. */
	if (plan->t.reason == HEDDLE_SLICE)
		plan->key = STOPPED + ++all.stops;
}

/* One of depth - 1 among the steps that are left, each time; so over all steps, each of the
 * places is as likely as any other. */
static bool is_change(void)
{
	uint64_t left = plan_spec()->steps > all.points ? plan_spec()->steps - all.points : 0;
	uint32_t wanted = plan_spec()->depth - 1 - all.changes;

	all.points++;
	if (all.changes >= plan_spec()->depth - 1 || left == 0 || plan_lot() % left >= wanted)
		return false;
	all.changes++;
	return true;
}

static bool priority_point(struct plan *plan, const struct plan *least)
{
	if (plan->key == 0)
		by_priority(plan);
	if (is_change())
		plan->key = FALLEN + ++all.falls;
	return least && least->key < plan->key;
}

/* ---- chaos: for a while some starve, all give way often or seldom, and slices are of any
 * length; then it is others' turn. After rr's mode of that name ---- */

static bool starves(const struct plan *plan)
{
	return choose_mix(all.epoch ^ plan->t.id * CHOOSE_GAMMA) % 4 == 0;
}

static void draw_chaos(struct plan *plan)
{
	plan->key = (starves(plan) ? STOPPED : 0) | plan_lot() >> 1;
}

static void next_event(void)
{
	if (all.events++ % CHAOS_EPOCH != 0)
		return;
	all.epoch = plan_lot();
	all.often = (uint64_t)2 << plan_lot() % 7;
	plan_rank_queued(draw_chaos);
}

static void by_chaos(struct plan *plan)
{
	next_event();
	draw_chaos(plan);
}

static bool chaos_point(struct plan *plan, const struct plan *least)
{
	bool gives = least &&
		     (plan_lot() % all.often == 0 || (starves(plan) && least->key < STOPPED));

	next_event();
	return gives;
}

static void chaos_picked(struct plan *plan)
{
	st_rlx(&plan->slice, CHAOS_LEAST_NS + plan_lot() % (CHAOS_MOST_NS - CHAOS_LEAST_NS));
}

const struct ranking rankings[POLICY_KINDS] = {
	[POLICY_FIFO] = { .rank = by_age },
	[POLICY_RR] = { .rank = by_age },
	[POLICY_LIFO] = { .rank = by_youth, .own = true },
	[POLICY_RANDOM] = { .rank = by_age,
			    .point = lot_point,
			    .lots = true,
			    .slice = LONG_SLICE_NS },
	[POLICY_CFS] = { .rank = by_share, .picked = share_picked, .slice = CFS_SLICE_NS },
	[POLICY_PCT] = { .rank = by_priority, .point = priority_point, .slice = LONG_SLICE_NS },
	[POLICY_CHAOS] = { .rank = by_chaos,
			   .point = chaos_point,
			   .picked = chaos_picked,
			   .slice = 1 * MS },
};
