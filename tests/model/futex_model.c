/* core/futex.c, core/waitq.c and core/sleep.c, every interleaving: waiters, wakers, timers and
 * signals. No wake-up is lost, and each wait ends once. Read model.h and futex_scene.h first,
 * requeue_model.c next; spin/futex.pml tells the same at a coarser grain. */
#include "futex_scene.h"

#include "sleep.h"

static void change_and_wake_one(void *arg)
{
	written = 1;
	st_rlx(a, 1);
	*(int *)arg = futex_wake(a, 1, (uint32_t)FUTEX_ANY, 0);
}

/* ---- one waiter, one waker ---- */

static void check_one(void)
{
	no_waiters();
	EXPECT(result[0] == 0 || result[0] == -EAGAIN_);
	EXPECT_EQ(count_of[0], result[0] == 0);
	model_reach(result[0] == 0);
}

TEST(no_wakeup_is_lost)
{
	begin();
	stage_g("waiter", wait_a, &result[0]);
	stage_g("waker", change_and_wake_one, &count_of[0]);
	model_finally(check_one);
	model_must_reach(2);
}

TEST(no_wakeup_is_lost_on_a_foreign_thread)
{
	begin();
	stage_foreign("waiter", wait_a, &result[0]);
	stage_g("waker", change_and_wake_one, &count_of[0]);
	model_finally(check_one);
	model_must_reach(2);
}

TEST(no_wakeup_by_a_foreign_thread_is_lost)
{
	begin();
	stage_g("waiter", wait_a, &result[0]);
	stage_foreign("waker", change_and_wake_one, &count_of[0]);
	model_finally(check_one);
	model_must_reach(2);
}

static void exchange_and_wake_one(void *arg)
{
	written = 1;
	xchg_sc(a, 1);
	*(int *)arg = futex_wake(a, 1, (uint32_t)FUTEX_ANY, FUTEX_FENCED);
}

TEST(no_wakeup_of_a_fenced_change_is_lost)
{
	begin();
	stage_g("waiter", wait_a, &result[0]);
	stage_g("waker", exchange_and_wake_one, &count_of[0]);
	model_finally(check_one);
	model_must_reach(2);
}

static void wait_for_another_value(void *arg)
{
	*(int *)arg = futex_wait(a, 7, (uint32_t)FUTEX_ANY, NULL, 0);
}

static void check_again(void)
{
	no_waiters();
	EXPECT_EQ(result[0], -EAGAIN_);
	EXPECT_EQ(count_of[0], 0);
}

TEST(another_value_is_no_reason_to_wait)
{
	begin();
	stage_g("waiter", wait_for_another_value, &result[0]);
	stage_g("waker", change_and_wake_one, &count_of[0]);
	model_finally(check_again);
}

/* ---- deadlines ---- */

static void check_timed(void)
{
	no_waiters();
	EXPECT(result[0] == 0 || result[0] == -EAGAIN_ || result[0] == -ETIMEDOUT_);
	EXPECT_EQ(count_of[0], result[0] == 0);
	model_reach(result[0] == 0 ? 0 : result[0] == -EAGAIN_ ? 1 : 2);
}

TEST(a_timeout_or_a_wakeup_ends_a_wait)
{
	begin();
	stage_g("waiter", wait_a_timed, &result[0]);
	stage_g("waker", change_and_wake_one, &count_of[0]);
	model_finally(check_timed);
	model_must_reach(3);
}

TEST(a_timeout_or_a_wakeup_ends_a_foreign_wait)
{
	begin();
	stage_foreign("waiter", wait_a_timed, &result[0]);
	stage_g("waker", change_and_wake_one, &count_of[0]);
	model_finally(check_timed);
	model_must_reach(3);
}

MODEL_UNWATCHED static int times_readied(int actor)
{
	return actors[actor].readied;
}

static void wake_one_of_two(void *arg)
{
	(void)arg;
	model_until(stage_parked, &actors[1].g, "the other waiter is parked");
	written = 1;
	count_of[0] = futex_wake(a, 1, (uint32_t)FUTEX_ANY, 0);
	count_of[1] = times_readied(1);
	st_rlx(a, 1);
	futex_wake(a, FUTEX_ANY, (uint32_t)FUTEX_ANY, 0);
}

static void check_one_of_two(void)
{
	no_waiters();
	EXPECT_EQ(count_of[0], 1);
	EXPECT_EQ(result[1], 0);
	EXPECT(result[0] == 0 || result[0] == -EAGAIN_ || result[0] == -ETIMEDOUT_);
	EXPECT(result[0] == 0 || count_of[1] == 1);
}

TEST(one_who_timed_out_takes_nobodys_wakeup)
{
	begin();
	stage_g("timed", wait_a_timed, &result[0]);
	stage_g("waiter", wait_a, &result[1]);
	stage_g("waker", wake_one_of_two, NULL);
	model_finally(check_one_of_two);
}

static void wait_twice(void *arg)
{
	int *r = arg;

	r[0] = wait_on(a, &soon, 0);
	r[1] = wait_on(b, &soon, 0);
}

static void wake_a_then_b(void *arg)
{
	(void)arg;
	written = 1;
	st_rlx(a, 1);
	count_of[0] = futex_wake(a, 1, (uint32_t)FUTEX_ANY, 0);
	st_rlx(b, 1);
	count_of[1] = futex_wake(b, 1, (uint32_t)FUTEX_ANY, 0);
}

static void check_twice(void)
{
	check_timed();
	EXPECT(result[1] == 0 || result[1] == -EAGAIN_ || result[1] == -ETIMEDOUT_);
	EXPECT_EQ(count_of[1], result[1] == 0);
}

TEST(a_late_timer_ends_no_later_wait)
{
	begin();
	stage_g("waiter", wait_twice, result);
	stage_g("waker", wake_a_then_b, NULL);
	model_finally(check_twice);
}

static void check_nomem(void)
{
	no_waiters();
	EXPECT(result[0] == -ENOMEM_ || result[0] == -EAGAIN_);
	EXPECT_EQ(count_of[0], 0);
}

TEST(a_wait_without_a_timer_to_be_had_ends)
{
	begin();
	stage_nomem = true;
	stage_g("waiter", wait_a_timed, &result[0]);
	stage_g("waker", change_and_wake_one, &count_of[0]);
	model_finally(check_nomem);
}

/* ---- signals ---- */

static void interrupter(void *arg)
{
	count_of[3] = gointerrupt(arg);
}

static void check_interrupted(void)
{
	no_waiters();
	EXPECT(result[0] == 0 || result[0] == -EAGAIN_ || result[0] == -EINTR_);
	EXPECT_EQ(count_of[0], result[0] == 0);
	EXPECT_EQ(count_of[3], result[0] == -EINTR_);
	model_reach(result[0] == 0 ? 0 : result[0] == -EAGAIN_ ? 1 : 2);
}

TEST(a_signal_or_a_wakeup_ends_a_wait)
{
	begin();
	stage_g("waiter", wait_a, &result[0]);
	stage_g("waker", change_and_wake_one, &count_of[0]);
	stage_g("signaller", interrupter, &actors[0].g);
	model_finally(check_interrupted);
	model_must_reach(3);
}

static void check_any_end(void)
{
	no_waiters();
	EXPECT_EQ(count_of[0], result[0] == 0);
	EXPECT_EQ(count_of[3], result[0] == -EINTR_);
	EXPECT(result[0] != NEVER);
}

TEST(a_signal_a_timeout_or_a_wakeup_ends_a_wait)
{
	begin();
	stage_g("waiter", wait_a_timed, &result[0]);
	stage_g("waker", change_and_wake_one, &count_of[0]);
	stage_g("signaller", interrupter, &actors[0].g);
	model_finally(check_any_end);
}

TEST(a_signal_meets_a_wait_without_a_timer_to_be_had)
{
	begin();
	stage_nomem = true;
	stage_g("waiter", wait_a_timed, &result[0]);
	stage_g("waker", change_and_wake_one, &count_of[0]);
	stage_g("signaller", interrupter, &actors[0].g);
	model_finally(check_any_end);
}

static void wait_for_a_then_b(void *arg)
{
	int *r = arg;

	r[0] = wait_on(a, NULL, 0);
	r[1] = wait_on(b, NULL, 0);
}

static void check_interrupted_twice(void)
{
	no_waiters();
	EXPECT_EQ(count_of[0], result[0] == 0);
	EXPECT_EQ(count_of[1], result[1] == 0);
	EXPECT_EQ(count_of[3], (result[0] == -EINTR_) + (result[1] == -EINTR_));
}

/* It ends the wait that it saw, parked or on its way there, and no other. */
TEST(a_signal_ends_the_wait_it_finds)
{
	begin();
	stage_g("waiter", wait_for_a_then_b, result);
	stage_g("waker", wake_a_then_b, NULL);
	stage_g("signaller", interrupter, &actors[0].g);
	model_finally(check_interrupted_twice);
}

static void check_foreign_signal(void)
{
	no_waiters();
	EXPECT(result[0] == 0 || result[0] == -EAGAIN_ || result[0] == -EINTR_);
	EXPECT_EQ(count_of[0], result[0] == 0);
}

TEST(a_signal_or_a_wakeup_ends_a_foreign_wait)
{
	begin();
	stage_signals = 1;
	stage_foreign("waiter", wait_a, &result[0]);
	stage_g("waker", change_and_wake_one, &count_of[0]);
	model_finally(check_foreign_signal);
}

/* ---- several waiters ---- */

static void check_two_and_two(void)
{
	no_waiters();
	for (int i = 0; i < 2; i++)
		EXPECT(result[i] == 0 || result[i] == -EAGAIN_);
	EXPECT_EQ(count_of[0] + count_of[1], (result[0] == 0) + (result[1] == 0));
	model_reach((unsigned)(count_of[0] + count_of[1]));
}

static void set_and_wake_one(void *arg)
{
	st_rlx(a, 1);
	*(int *)arg = futex_wake(a, 1, (uint32_t)FUTEX_ANY, 0);
}

TEST(two_wakers_of_one_wake_two_waiters)
{
	begin();
	written = 1;
	stage_g("waiter1", wait_a, &result[0]);
	stage_g("waiter2", wait_a, &result[1]);
	stage_g("waker1", set_and_wake_one, &count_of[0]);
	stage_g("waker2", set_and_wake_one, &count_of[1]);
	model_finally(check_two_and_two);
	model_must_reach(3);
}

TEST(a_g_and_a_foreign_thread_wait_in_one_queue)
{
	begin();
	written = 1;
	stage_g("waiter1", wait_a, &result[0]);
	stage_foreign("waiter2", wait_a, &result[1]);
	stage_foreign("waker1", set_and_wake_one, &count_of[0]);
	stage_g("waker2", set_and_wake_one, &count_of[1]);
	model_finally(check_two_and_two);
	model_must_reach(3);
}

static void check_three(void)
{
	no_waiters();
	for (int i = 0; i < 3; i++)
		EXPECT(result[i] == 0 || result[i] == -EAGAIN_ || result[i] == -ETIMEDOUT_);
	EXPECT_EQ(count_of[0], (result[0] == 0) + (result[1] == 0) + (result[2] == 0));
	model_reach((unsigned)count_of[0]);
}

static void set_and_wake_all(void *arg)
{
	st_rlx(a, 1);
	*(int *)arg = futex_wake(a, FUTEX_ANY, (uint32_t)FUTEX_ANY, 0);
}

/* With what belongs to them these are eight threads; hence few departures. */
TEST_BOUND(of_three_waiters_each_ends_once, 3)
{
	begin();
	written = 1;
	stage_g("timed", wait_a_timed, &result[0]);
	stage_g("waiter", wait_a, &result[1]);
	stage_foreign("foreign", wait_a_timed, &result[2]);
	stage_g("waker", set_and_wake_all, &count_of[0]);
	model_finally(check_three);
	model_must_reach(4);
}

static void wake_three(void *arg)
{
	(void)arg;
	until_parked(&three);
	written = 1;
	for (int i = 0; i < 3; i++)
		count_of[i] = futex_wake(a, 1, (uint32_t)FUTEX_ANY, 0);
}

static void check_one_by_one(void)
{
	check_order();
	for (int i = 0; i < 3; i++)
		EXPECT_EQ(count_of[i], 1);
}

TEST(the_oldest_is_woken_first_but_for_lifo)
{
	begin();
	stage_g("first", wait_a, &result[0]);
	stage_g("second", wait_second, &result[1]);
	stage_g("lifo", wait_third_but_first, &result[2]);
	stage_g("waker", wake_three, NULL);
	model_finally(check_one_by_one);
}

static void wake_all(void *arg)
{
	(void)arg;
	until_parked(&three);
	written = 1;
	count_of[0] = futex_wake(a, FUTEX_ANY, (uint32_t)FUTEX_ANY, 0);
}

static void check_all_in_order(void)
{
	check_order();
	EXPECT_EQ(count_of[0], 3);
}

TEST(a_wake_of_all_keeps_the_order)
{
	begin();
	stage_g("first", wait_a, &result[0]);
	stage_g("second", wait_second, &result[1]);
	stage_g("lifo", wait_third_but_first, &result[2]);
	stage_g("waker", wake_all, NULL);
	model_finally(check_all_in_order);
}

static void hand_off(void *arg)
{
	(void)arg;
	written = 1;
	st_rlx(a, 1);
	count_of[0] = futex_wake(a, 1, (uint32_t)FUTEX_ANY, FUTEX_HANDOFF);
}

static void check_handoff(void)
{
	check_one();
	EXPECT_EQ(stage_handoffs, count_of[0]);
}

TEST(a_handoff_gives_way_to_the_one_it_woke)
{
	begin();
	stage_g("waiter", wait_a, &result[0]);
	stage_g("waker", hand_off, NULL);
	model_finally(check_handoff);
}
