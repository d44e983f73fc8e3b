/* core/runq.c, every interleaving: an owner and thieves at a ring of four. What is put is got
 * once, by whom it may, with what was written before. Read model.h and runq_scene.h first,
 * runqempty_model.c next. */
#include "runq_scene.h"

static void two_thieves(void (*owner)(void *), int n)
{
	stage_g("owner", owner, NULL);
	stage_g("thief1", steal_into_p1, NULL);
	stage_g("thief2", steal_into_p2, NULL);
	nall = n;
	model_finally(check);
}

static void put_and_get(void *arg)
{
	(void)arg;
	put(0, false);
	put(1, false);
	get();
	put(2, false);
	get();
}

/* WS_I3, WS_S2, GMP_R2, GMP_R3. */
TEST(owner_and_thieves_take_each_g_once)
{
	begin(0);
	two_thieves(put_and_get, 3);
}

TEST(the_indices_wrap_unnoticed)
{
	begin(UINT32_MAX);
	two_thieves(put_and_get, 3);
}

static void put_two_ways(void *arg)
{
	(void)arg;
	put(0, false);
	put(1, true);
}

/* Takes from p0 and runs one; what else it took lies in p1. */
static void steal_twice(void *arg)
{
	steal_all_into_p1(arg);
	if (p1->runqhead == p1->runqtail)
		steal_all_into_p1(arg);
}

static void steal_from_both(void *arg)
{
	(void)arg;
	steal(p2, p1, false);
	if (ntook[2] == 0)
		steal(p2, p0, true);
}

/* GMP_R4: by ring and runnext, at first hand and at second. */
TEST(what_was_written_before_the_put_is_seen)
{
	begin(0);
	stage_g("owner", put_two_ways, NULL);
	stage_g("thief1", steal_twice, NULL);
	stage_g("thief2", steal_from_both, NULL);
	nall = 2;
	model_finally(check);
}

static void steal_two_then_publish(void *arg)
{
	(void)arg;
	steal(p1, p0, false);
}

static void steal_from_the_thief(void *arg)
{
	(void)arg;
	steal(p2, p1, false);
}

static void put_three(void *arg)
{
	(void)arg;
	put(0, false);
	put(1, false);
	put(2, false);
}

TEST(what_a_thief_passes_on_is_seen)
{
	begin(0);
	stage_g("owner", put_three, NULL);
	stage_g("thief1", steal_two_then_publish, NULL);
	stage_g("thief2", steal_from_the_thief, NULL);
	nall = 3;
	model_finally(check);
}

static void put_into_a_full_queue(void *arg)
{
	/* Two looks at the indices, one move of half, one put. */
	enum { MOST = 2 * 2 + RUNQ_SIZE / 2 + 1 + 2, GLOBAL = 8 };
	unsigned before;

	(void)arg;
	model_waitfree(true);
	before = model_steps();
	runqput(p0, &gs[4], false);
	EXPECT(model_steps() - before <= MOST + GLOBAL);
	model_waitfree(false);
}

/* WS_S4: whatever thieves do, and wherever they stop. */
TEST(the_owners_put_waits_for_no_thief)
{
	begin(0);
	fill(4);
	two_thieves(put_into_a_full_queue, 5);
}

static void check_overflow(void)
{
	int n = 0;

	all_there(5);
	for (struct g *gp = sched.runq.head; gp; gp = gp->schedlink)
		n++;
	EXPECT(n == 0 || n == RUNQ_SIZE / 2 + 1);
	EXPECT_EQ(sched.runqsize, n);
	EXPECT(n == 0 || sched.runq.tail == &gs[4]);
	model_reach(n != 0);
}

static void put_the_fifth(void *arg)
{
	(void)arg;
	put(4, false);
}

/* GMP_R6. */
TEST(an_overflow_beside_a_thief_loses_nothing)
{
	begin(0);
	fill(4);
	stage_g("owner", put_the_fifth, NULL);
	stage_g("thief1", steal_into_p1, NULL);
	stage_g("thief2", steal_into_p2, NULL);
	model_finally(check_overflow);
	model_must_reach(2);
}

static void get_and_refill(void *arg)
{
	(void)arg;
	get();
	put(4, false);
	put(5, false);
}

TEST(a_slot_is_refilled_only_after_it_was_read)
{
	begin(UINT32_MAX - 1);
	fill(4);
	two_thieves(get_and_refill, 6);
}

static void check_one_success(void)
{
	all_there(1);
	EXPECT_EQ(ntook[1] + ntook[2], 1);
	model_reach((unsigned)ntook[1]);
}

static void check_both_succeed(void)
{
	all_there(2);
	EXPECT(ntook[1] == 1 && ntook[2] == 1);
	model_reach(took[1][0] == &gs[0]);
}

static void only_thieves(int n, void (*checks)(void))
{
	begin(0);
	fill(n);
	stage_g("thief1", steal_into_p1, NULL);
	stage_g("thief2", steal_into_p2, NULL);
	model_finally(checks);
	model_must_reach(2);
}

/* WS_S5. */
TEST(of_thieves_that_collide_one_succeeds)
{
	only_thieves(1, check_one_success);
}

TEST(a_thief_that_lost_takes_what_is_left)
{
	only_thieves(2, check_both_succeed);
}

static void put_next_and_get(void *arg)
{
	(void)arg;
	put(0, true);
	put(1, true);
	get();
	get();
}

/* GMP_R5: runnext, and who is kicked out of it. */
TEST(runnext_is_taken_once)
{
	begin(0);
	stage_g("owner", put_next_and_get, NULL);
	stage_g("thief1", steal_all_into_p1, NULL);
	stage_g("thief2", steal_all_into_p2, NULL);
	nall = 2;
	model_finally(check);
}

static void none_has_begun(void)
{
	for (int i = 0; i < GS; i++)
		gs[i].fresh = true;
}

/* What it takes begins. */
static void steal_and_begin(void *arg)
{
	steal_all_into_p1(arg);
	if (ntook[1] > 0)
		st_rlx(&took[1][0]->fresh, false);
}

static void check_order(void)
{
	check();
	for (int i = 1; i < ntook[0]; i++)
		EXPECT(took[0][i - 1] < took[0][i]);
	model_reach((unsigned)ntook[0] - 1);
}

TEST(new_gs_begin_once_and_in_order)
{
	begin(0);
	none_has_begun();
	stage_g("owner", put_next_and_get, NULL);
	stage_g("thief1", steal_and_begin, NULL);
	nall = 2;
	model_finally(check_order);
	model_must_reach(2);
}

static void put_next_and_get_two(void *arg)
{
	(void)arg;
	put(4, true);
	get();
	get();
}

/* Of thieves' room, too: the ring is full at first. */
TEST(a_new_g_goes_behind_others_only_where_there_is_room)
{
	begin(UINT32_MAX - 1);
	none_has_begun();
	fill(4);
	two_thieves(put_next_and_get_two, 5);
}

static void put_batch(void *arg)
{
	(void)arg;
	for (int i = 3; i < 6; i++) {
		gs[i].goid = 100 + (uint64_t)i;
		st_rlx(&gs[i].waitsince, 100 + (uint64_t)i);
		gs[i].schedlink = i < 5 ? &gs[i + 1] : NULL;
	}
	runqputbatch(p0, &gs[3], 3);
	get();
}

TEST(a_batch_beside_thieves_loses_nothing)
{
	begin(UINT32_MAX - 1);
	fill(3);
	two_thieves(put_batch, 6);
}

static void drain(void *arg)
{
	(void)arg;
	lock(&sched.lock);
	runqdrain_locked(p0);
	unlock(&sched.lock);
	EXPECT(runqempty(p0));
}

TEST(a_drain_beside_thieves_loses_nothing)
{
	begin(0);
	fill(3);
	runqput(p0, &gs[nput++], true);
	stage_g("stopper", drain, NULL);
	stage_g("thief1", steal_all_into_p1, NULL);
	stage_g("thief2", steal_into_p2, NULL);
	nall = 4;
	model_finally(check);
}

static void do_everything(void *arg)
{
	(void)arg;
	put(0, true);
	put(1, true);
	put(2, false);
	get();
	put(3, true);
	put(4, false);
	put(5, false);
	get();
	put(6, false);
	put(7, false);
	get();
}

static void steal_all_twice_into_p1(void *arg)
{
	steal_all_into_p1(arg);
	while (p1->runqhead != p1->runqtail) {
		bool inherit;
		keep(p1, runqget(p1, &inherit));
	}
	steal_all_into_p1(arg);
}

static void steal_all_twice_into_p2(void *arg)
{
	steal_all_into_p2(arg);
	while (p2->runqhead != p2->runqtail) {
		bool inherit;
		keep(p2, runqget(p2, &inherit));
	}
	steal_all_into_p2(arg);
}

/* Longer, and so with few departures. */
TEST_BOUND(a_long_day_at_the_queue_loses_nothing, 3)
{
	begin(UINT32_MAX - 2);
	stage_g("owner", do_everything, NULL);
	stage_g("thief1", steal_all_twice_into_p1, NULL);
	stage_g("thief2", steal_all_twice_into_p2, NULL);
	nall = 8;
	model_finally(check);
}
