/* The scheduler's choices: the order in which a thief goes round, how much it takes, who
 * may search, and that a seed names them all. */
#include <string.h>

#include "host.h"
#include "sched.h"

enum { MANY_PS = 64, SEEDS = 1000 };

static struct m mp;

static void seed(uint64_t n)
{
	mp.rng = test_seed() ^ n * 0x9e3779b97f4a7c15u;
}

static void go_round(uint32_t n)
{
	uint8_t seen[MAX_PROCS] = { 0 };
	struct stealorder order = choose_stealorder(&mp, n);
	uint32_t at, visits = 0;

	while (stealorder_next(&order, &at)) {
		EXPECT(at < n);
		EXPECT_EQ(seen[at], 0);
		seen[at] = 1;
		visits++;
	}
	EXPECT_EQ(visits, n);
}

TEST(a_thief_visits_every_p_once_a_round)
{
	for (uint32_t n = 1; n <= MANY_PS; n++) {
		for (uint64_t s = 0; s < SEEDS; s++) {
			seed(s);
			go_round(n);
		}
	}
	for (uint32_t n = MANY_PS; n <= MAX_PROCS; n++)
		go_round(n);
}

TEST(no_p_is_always_the_first_victim_and_no_stride_is_left_out)
{
	for (uint32_t n = 2; n <= MANY_PS; n++) {
		uint32_t starts[MANY_PS] = { 0 }, strides[MANY_PS] = { 0 };
		seed(n);
		for (uint32_t i = 0; i < 100 * n; i++) {
			struct stealorder order = choose_stealorder(&mp, n);
			starts[order.at]++;
			strides[order.stride]++;
		}
		for (uint32_t i = 0; i < n; i++) {
			/* Of a hundred each, with a deviation of ten. */
			EXPECT(starts[i] > 30 && starts[i] < 200);
			EXPECT((strides[i] != 0) == (i != 0 && gcd(i, n) == 1));
		}
	}
}

TEST(a_thief_takes_half_rounded_up)
{
	EXPECT_EQ(choose_stealamount(0), 0);
	for (uint32_t n = 1; n <= RUNQ_SIZE; n++) {
		uint32_t taken = choose_stealamount(n), left = n - taken;
		EXPECT(taken == left || taken == left + 1);
	}
	/* Of a torn picture of head and tail it would take more than a queue can give. */
	EXPECT(choose_stealamount(RUNQ_SIZE + 1) > RUNQ_SIZE / 2);
	EXPECT(choose_stealamount((uint32_t)-1) > RUNQ_SIZE / 2);
}

TEST(one_ps_share_of_the_global_queue_is_fair_and_bounded)
{
	for (int32_t procs = 1; procs <= MANY_PS; procs++) {
		sched.gomaxprocs = procs;
		for (int32_t size = 0; size < 3 * RUNQ_SIZE; size++) {
			for (int32_t max = 1; max <= RUNQ_SIZE / 2; max += max) {
				int32_t share = choose_globalshare(size, max),
					fair = size / procs + 1;
				EXPECT(share <= max && share <= size && share <= fair);
				EXPECT(share == max || share == size || share == fair);
			}
		}
	}
}

TEST(every_61st_slice_begins_with_the_global_queue)
{
	static struct p pp;
	int first = 0;

	sched.runqsize = 1;
	for (pp.schedtick = 0; pp.schedtick < 610; pp.schedtick++)
		first += choose_globalfirst(&pp);
	EXPECT_EQ(first, 10);
	sched.runqsize = 0;
	for (pp.schedtick = 0; pp.schedtick < 610; pp.schedtick++)
		EXPECT(!choose_globalfirst(&pp));
}

TEST(half_of_the_busy_ps_search_at_most)
{
	for (int32_t procs = 1; procs <= MANY_PS; procs++) {
		for (int32_t busy = 0; busy <= procs; busy++) {
			sched.gomaxprocs = procs;
			sched.npidle = procs - busy;
			/* All that want to search, one after the other. */
			for (sched.nmspinning = 0; choose_spin(); sched.nmspinning++)
				EXPECT(sched.nmspinning < busy);
			EXPECT_EQ(sched.nmspinning, (busy + 1) / 2);
		}
	}
}

TEST(random_numbers_are_below_their_bound_and_even)
{
	seed(0);
	for (uint32_t n = 1; n <= MANY_PS; n++) {
		uint32_t hits[MANY_PS] = { 0 };
		for (uint32_t i = 0; i < 100 * n; i++) {
			uint32_t r = choose_below(&mp, n);
			EXPECT(r < n);
			hits[r]++;
		}
		for (uint32_t i = 0; i < n; i++)
			EXPECT(hits[i] > 30 && hits[i] < 200);
	}
	EXPECT(choose_below(&mp, UINT32_MAX) != choose_below(&mp, UINT32_MAX));
}

static void choices(uint64_t s, struct stealorder *to, int n)
{
	seed(s);
	for (int i = 0; i < n; i++)
		to[i] = choose_stealorder(&mp, MANY_PS);
}

TEST(a_seed_names_all_choices)
{
	enum { CHOICES = 100 };
	static struct stealorder one[CHOICES], same[CHOICES], other[CHOICES];

	for (uint64_t s = 0; s < SEEDS; s++) {
		choices(s, one, CHOICES);
		choices(s, same, CHOICES);
		choices(s + 1, other, CHOICES);
		EXPECT(memcmp(one, same, sizeof(one)) == 0);
		EXPECT(memcmp(one, other, sizeof(one)) != 0);
	}
}
