/* core/futex.c and core/waitq.c, every interleaving: waiters that are moved to another word
 * while others wake them or their time runs out. Read futex_scene.h first. */
#include "futex_scene.h"

/* ---- requeues ---- */

static ATOMIC(uint32_t) *from, *to;

static void wait_from(void *arg)
{
	*(int *)arg = wait_on(from, NULL, 0);
}

static void wait_from_timed(void *arg)
{
	*(int *)arg = wait_on(from, &soon, 0);
}

static void requeue_then_wake(void *arg)
{
	*(int *)arg = futex_requeue(from, 0, to, FUTEX_ANY, true, 0);
	st_rlx(from, 1);
	futex_wake(from, FUTEX_ANY, (uint32_t)FUTEX_ANY, 0);
}

static void check_requeue_timeout(void)
{
	no_waiters();
	EXPECT(result[0] == -ETIMEDOUT_ || result[0] == 0 || result[0] == -EAGAIN_);
	EXPECT(count_of[0] == 0 || count_of[0] == 1);
}

/* Between two buckets upwards, downwards, and within one. */
static void begin_requeue(int way)
{
	begin();
	written = 1;
	from = way == 1 ? b : a;
	to = way == 0 ? b : way == 1 ? a : twin;
}

static void timeout_beside_requeue(int way)
{
	begin_requeue(way);
	stage_g("waiter", wait_from_timed, &result[0]);
	stage_g("requeuer", requeue_then_wake, &count_of[0]);
	model_finally(check_requeue_timeout);
}

TEST(a_timeout_finds_its_waiter_after_a_requeue)
{
	timeout_beside_requeue(0);
}

TEST(a_timeout_finds_its_waiter_after_a_requeue_downwards)
{
	timeout_beside_requeue(1);
}

TEST(a_timeout_finds_its_waiter_after_a_requeue_within_a_bucket)
{
	timeout_beside_requeue(2);
}

TEST(a_foreign_timeout_finds_its_waiter_after_a_requeue)
{
	begin_requeue(0);
	stage_foreign("waiter", wait_from_timed, &result[0]);
	stage_g("requeuer", requeue_then_wake, &count_of[0]);
	model_finally(check_requeue_timeout);
}

static void requeue_parked(void *arg)
{
	until_parked(&one);
	*(int *)arg = futex_requeue(from, 0, to, FUTEX_ANY, false, 0);
}

/* Of from, and if nobody is there any more, of to. */
static void wake_either(void *arg)
{
	(void)arg;
	until_parked(&one);
	count_of[0] = futex_wake(from, 1, (uint32_t)FUTEX_ANY, 0);
	if (count_of[0] == 0)
		count_of[0] = futex_wake(to, 1, (uint32_t)FUTEX_ANY, 0);
}

static void check_found(void)
{
	no_waiters();
	EXPECT_EQ(count_of[0], 1);
	EXPECT_EQ(result[0], 0);
}

static void wake_beside_requeue(int way)
{
	begin_requeue(way);
	stage_g("waiter", wait_from, &result[0]);
	stage_g("requeuer", requeue_parked, &count_of[1]);
	stage_g("waker", wake_either, NULL);
	model_finally(check_found);
}

TEST(a_waiter_is_found_during_a_requeue)
{
	wake_beside_requeue(0);
}

TEST(a_waiter_is_found_during_a_requeue_downwards)
{
	wake_beside_requeue(1);
}

TEST(a_waiter_is_found_during_a_requeue_within_a_bucket)
{
	wake_beside_requeue(2);
}

static void set_both_and_wake(void *arg)
{
	st_rlx(from, 1);
	count_of[0] = futex_wake(from, 1, (uint32_t)FUTEX_ANY, 0);
	if (count_of[0] == 0)
		count_of[0] = futex_wake(to, 1, (uint32_t)FUTEX_ANY, 0);
	(void)arg;
}

static void requeue_any(void *arg)
{
	*(int *)arg = futex_requeue(from, 0, to, FUTEX_ANY, false, 0);
}

static void check_triangle(void)
{
	no_waiters();
	EXPECT(result[0] == 0 || result[0] == -EAGAIN_ || result[0] == -ETIMEDOUT_);
	EXPECT_EQ(count_of[0], result[0] == 0);
	model_reach(result[0] == 0 ? 0 : result[0] == -EAGAIN_ ? 1 : 2);
	if (result[0] == 0)
		model_reach(3 + (unsigned)count_of[1]);
}

static void triangle(int way)
{
	begin_requeue(way);
	stage_g("waiter", wait_from_timed, &result[0]);
	stage_g("requeuer", requeue_any, &count_of[1]);
	stage_g("waker", set_both_and_wake, NULL);
	model_finally(check_triangle);
	model_must_reach(5);
}

TEST(a_timeout_a_requeue_and_a_wakeup_agree)
{
	triangle(0);
}

TEST(a_timeout_a_requeue_downwards_and_a_wakeup_agree)
{
	triangle(1);
}

TEST(a_timeout_a_requeue_within_a_bucket_and_a_wakeup_agree)
{
	triangle(2);
}

static int over;

static void requeue_up(void *arg)
{
	until_parked(&two);
	*(int *)arg = futex_requeue(a, 0, b, FUTEX_ANY, false, 0);
	add_sc(&over, 1);
}

static void requeue_down(void *arg)
{
	until_parked(&two);
	*(int *)arg = futex_requeue(b, 0, a, FUTEX_ANY, false, 0);
	add_sc(&over, 1);
}

MODEL_UNWATCHED static bool both_over(const void *arg)
{
	return *(const int *)arg == 2;
}

static void wake_all_of_both(void *arg)
{
	(void)arg;
	model_until(both_over, &over, "the requeues are over");
	count_of[2] = futex_wake(a, FUTEX_ANY, (uint32_t)FUTEX_ANY, 0) +
		      futex_wake(b, FUTEX_ANY, (uint32_t)FUTEX_ANY, 0);
}

static void check_crosswise(void)
{
	no_waiters();
	EXPECT_EQ(count_of[2], 2);
	EXPECT(result[0] == 0 && result[1] == 0);
}

TEST(requeues_crosswise_lose_nobody_and_do_not_block)
{
	begin();
	written = 1;
	over = 0;
	stage_g("waiter1", wait_a, &result[0]);
	stage_g("waiter2", wait_b, &result[1]);
	stage_g("upwards", requeue_up, &count_of[0]);
	stage_g("downwards", requeue_down, &count_of[1]);
	stage_g("waker", wake_all_of_both, NULL);
	model_finally(check_crosswise);
}

/* As a condition variable does: one is woken, the others move to the mutex's word. */
static void wake_one_and_move(void *arg)
{
	(void)arg;
	until_parked(&three);
	count_of[0] = futex_requeue(a, 1, b, 1, true, 0);
	count_of[1] = futex_wake(b, FUTEX_ANY, (uint32_t)FUTEX_ANY, 0);
	count_of[2] = futex_wake(a, FUTEX_ANY, (uint32_t)FUTEX_ANY, 0);
}

static void check_moved(void)
{
	check_order();
	EXPECT_EQ(count_of[0], 2);
}

TEST(a_requeue_wakes_and_moves_the_oldest)
{
	begin();
	written = 1;
	stage_g("first", wait_a, &result[0]);
	stage_g("second", wait_second, &result[1]);
	stage_g("lifo", wait_third_but_first, &result[2]);
	stage_g("requeuer", wake_one_and_move, NULL);
	model_finally(check_moved);
}

/* A kernel thread that is woken goes on at once, and may look for the others before they have
 * moved. */
static void foreign_passes_on(void *arg)
{
	*(int *)arg = wait_on(a, NULL, 0);
	count_of[1] = futex_wake(b, 1, (uint32_t)FUTEX_ANY, 0);
}

static void requeue_behind_foreign(void *arg)
{
	(void)arg;
	/* The kernel thread came first, for the other waited until it was there. */
	model_until(stage_parked, &actors[0].g, "the g waits behind the foreign thread");
	count_of[0] = futex_requeue(a, 1, b, 1, true, 0);
}

MODEL_UNWATCHED static bool one_waits(const void *arg)
{
	(void)arg;
	return linked_waiters() == 1;
}

static void wait_behind_foreign(void *arg)
{
	model_until(one_waits, NULL, "the foreign thread waits");
	*(int *)arg = wait_on(a, NULL, 0);
}

static void check_passed_on(void)
{
	no_waiters();
	EXPECT_EQ(count_of[0], 2);
	EXPECT_EQ(count_of[1], 1);
	EXPECT(result[0] == 0 && result[1] == 0);
}

TEST(a_foreign_thread_that_was_woken_finds_who_was_moved)
{
	begin();
	written = 1;
	stage_g("waiter", wait_behind_foreign, &result[0]);
	stage_foreign("foreign", foreign_passes_on, &result[1]);
	stage_g("requeuer", requeue_behind_foreign, NULL);
	model_finally(check_passed_on);
}
