/* core/queue.c with core/futex.c and core/waitq.c, every interleaving: waits without a value, as
 * condition variables have them. A wait is in its queue before the program's lock is let go, so
 * it may be claimed, and moved to another word, while it is on its way into its park. Read
 * futex_scene.h first. */
#include "futex_scene.h"

#include "keep.h"
#include "os.h"
#include "sleep.h"

/* The queue and the word of the program's lock, on which those move that are not woken: in two
 * buckets in this order, in the other, or in one. */
static ATOMIC(uint32_t) *count, *then;
static ATOMIC(uint32_t) released;
static int chained[WAITERS];
static int asked; /* how often, whether a wait that a signal interrupted is to go on */
static bool ends; /* the answer is no */

/* Whoever wakes holds the program's lock. */
static bool held;

static void begin_queue(int way)
{
	begin();
	held = false;
	count = way == 1 ? b : a;
	then = way == 0 ? b : way == 1 ? a : twin;
	released = 0;
	asked = 0;
	ends = false;
	for (int i = 0; i < WAITERS; i++)
		chained[i] = 0;
	model_name(&released, sizeof(released), "released");
}

/* Of kernel threads whose wait goes on after signals, which are not staged here. */
void *keep(size_t size)
{
	(void)size;
	EXPECT(false);
	return NULL;
}

/* ---- what threads do ---- */

static bool keeps_then(ATOMIC(uint32_t) *word)
{
	EXPECT(word == then);
	return held;
}

/* As the holder does in the end. */
static void let_go_of_held(void)
{
	if (held)
		count_of[0] = futex_wake(then, 1, (uint32_t)FUTEX_ANY, 0);
}

static ATOMIC(uint32_t) *let_go(void *arg)
{
	(void)arg;
	add_sc(&released, 1);
	return NULL;
}

/* As of a lock on which somebody sleeps: one who was moved there, perhaps. */
static ATOMIC(uint32_t) *let_go_and_wake(void *arg)
{
	(void)arg;
	add_sc(&released, 1);
	return then;
}

__attribute__((noinline)) static int queue_by(const struct deadline *d,
					      ATOMIC(uint32_t) *(*release)(void *),
					      bool (*among)(void *, enum queue_among), bool *chain)
{
	int r;

	model_frame();
	r = queue_wait(count, d, false, release, among, &released, chain ? then : NULL, chain);
	model_frame_over();
	if (getg())
		EXPECT(ld_rlx(&getg()->timer.heap) == NULL);
	if (r == 0)
		EXPECT_EQ(written, 1);
	return r;
}

static int queue_on(const struct deadline *d, ATOMIC(uint32_t) *(*release)(void *), bool *chain)
{
	return queue_by(d, release, NULL, chain);
}

static void wait_alone(void *arg)
{
	*(int *)arg = queue_on(NULL, let_go, NULL);
}

static void wait_timed(void *arg)
{
	*(int *)arg = queue_on(&soon, let_go, NULL);
}

/* Whoever was moved to the lock, or leaves somebody there, wakes the next when he has it. */
static void wait_and_pass_on(const struct deadline *d, ATOMIC(uint32_t) *(*release)(void *),
			     int *to)
{
	bool chain = false;

	*to = queue_on(d, release, &chain);
	chained[to - result] = chain;
	/* That word is the program's. */
	EXPECT_EQ(ld_sc(then), 0);
	if (chain)
		futex_wake(then, 1, (uint32_t)FUTEX_ANY, 0);
}

static void wait_or_move(void *arg)
{
	wait_and_pass_on(NULL, let_go, arg);
}

static void wait_or_move_timed(void *arg)
{
	wait_and_pass_on(&soon, let_go, arg);
}

static void wait_tangled(void *arg)
{
	wait_and_pass_on(NULL, let_go_and_wake, arg);
}

MODEL_UNWATCHED static bool all_released(const void *n)
{
	return released == *(const uint32_t *)n;
}

/* Until so many have let go of the lock, when a waker may have it. */
static void until_released(const int *n)
{
	model_until(all_released, n, "the lock is free");
	EXPECT_EQ(add_sc(&released, 0), *n);
}

static void wake_released(void *arg)
{
	until_released(&one);
	written = 1;
	*(int *)arg = queue_wake(count, 1);
}

static void wake_any(void *arg)
{
	written = 1;
	*(int *)arg = queue_wake(count, 1);
}

/* ---- one waiter ---- */

static void check_counts(void)
{
	no_waiters();
	EXPECT_EQ(*count, 0);
}

static void check_woken(void)
{
	check_counts();
	EXPECT_EQ(result[0], 0);
	EXPECT_EQ(count_of[0], 1);
}

TEST(a_wake_after_the_release_finds_the_waiter)
{
	begin_queue(0);
	stage_g("waiter", wait_alone, &result[0]);
	stage_g("waker", wake_released, &count_of[0]);
	model_finally(check_woken);
}

TEST(a_wake_after_the_release_finds_a_foreign_waiter)
{
	begin_queue(0);
	stage_foreign("waiter", wait_alone, &result[0]);
	stage_g("waker", wake_released, &count_of[0]);
	model_finally(check_woken);
}

TEST(a_foreign_waker_finds_the_waiter)
{
	begin_queue(0);
	stage_g("waiter", wait_alone, &result[0]);
	stage_foreign("waker", wake_released, &count_of[0]);
	model_finally(check_woken);
}

static void check_timed(void)
{
	check_counts();
	EXPECT(result[0] == 0 || result[0] == -ETIMEDOUT_);
	EXPECT_EQ(count_of[0], result[0] == 0);
	model_reach(result[0] == 0 ? 0 : count_of[0] == 0 ? 1 : 2);
}

TEST(a_wake_or_the_deadline_ends_a_wait)
{
	begin_queue(0);
	stage_g("waiter", wait_timed, &result[0]);
	stage_g("waker", wake_any, &count_of[0]);
	model_finally(check_timed);
	model_must_reach(2);
}

TEST(a_wake_or_the_deadline_ends_a_foreign_wait)
{
	begin_queue(0);
	stage_foreign("waiter", wait_timed, &result[0]);
	stage_g("waker", wake_any, &count_of[0]);
	model_finally(check_timed);
	model_must_reach(2);
}

static void check_nomem(void)
{
	check_counts();
	EXPECT(result[0] == -ENOMEM_ || result[0] == 0);
	EXPECT_EQ(count_of[0], result[0] == 0);
	model_reach(result[0] == 0);
}

TEST(a_wait_without_a_timer_to_be_had_ends_once)
{
	begin_queue(0);
	stage_nomem = true;
	stage_g("waiter", wait_timed, &result[0]);
	stage_g("waker", wake_any, &count_of[0]);
	model_finally(check_nomem);
	model_must_reach(2);
}

static void interrupt_first(void *arg)
{
	(void)arg;
	count_of[3] = gointerrupt(&actors[0].g);
}

static void wake_until_one(void *arg)
{
	(void)arg;
	until_released(&one);
	written = 1;
	count_of[0] = queue_wake(count, 1);
}

static void check_interrupted(void)
{
	check_counts();
	EXPECT_EQ(count_of[0], result[0] == 0);
	EXPECT_EQ(count_of[3], result[0] == -EINTR_);
	EXPECT(result[0] == 0 || result[0] == -EINTR_);
	model_reach(result[0] == 0);
}

TEST(a_signal_or_a_wake_ends_a_wait)
{
	begin_queue(0);
	stage_g("waiter", wait_alone, &result[0]);
	stage_g("waker", wake_until_one, NULL);
	stage_g("signaller", interrupt_first, NULL);
	model_finally(check_interrupted);
	model_must_reach(2);
}

/* ---- handlers run meanwhile ---- */

static bool among(void *arg, enum queue_among now)
{
	(void)arg;
	asked += now == QUEUE_BACK;
	return !ends;
}

static void wait_among_handlers(void *arg)
{
	bool chain = false;

	*(int *)arg = queue_by(NULL, let_go, among, &chain);
	if (chain)
		futex_wake(then, 1, (uint32_t)FUTEX_ANY, 0);
}

static void check_among_handlers(void)
{
	check_counts();
	EXPECT(!actors[0].g.absent && !actors[0].g.placeholder.linked);
	EXPECT(result[0] == 0 || result[0] == -EINTR_);
	EXPECT_EQ(count_of[0], result[0] == 0);
	EXPECT(result[0] == 0 || ends);
	model_reach(result[0] != 0 ? 2 : asked ? 1 : 0);
}

static void among_handlers(bool then_ends)
{
	begin_queue(0);
	ends = then_ends;
	stage_g("waiter", wait_among_handlers, &result[0]);
	stage_g("waker", wake_until_one, NULL);
	stage_g("signaller", interrupt_first, NULL);
	model_finally(check_among_handlers);
	model_must_reach(then_ends ? 3 : 2);
}

TEST(a_wait_goes_on_after_handlers_and_a_wake_meanwhile_is_its)
{
	among_handlers(false);
}

static void wake_twice(void *arg)
{
	(void)arg;
	until_released(&two);
	written = 1;
	count_of[0] = queue_wake(count, 1);
	count_of[1] = queue_wake(count, 1);
}

static void check_a_wake_each(void)
{
	check_counts();
	EXPECT(result[0] == 0 && result[1] == 0);
	EXPECT(count_of[0] == 1 && count_of[1] == 1);
	model_reach(asked != 0);
}

TEST_BOUND(a_wake_ends_one_wait_whoever_runs_handlers, 2)
{
	begin_queue(0);
	stage_g("waiter1", wait_among_handlers, &result[0]);
	stage_g("waiter2", wait_alone, &result[1]);
	stage_g("waker", wake_twice, NULL);
	stage_g("signaller", interrupt_first, NULL);
	model_finally(check_a_wake_each);
	model_must_reach(2);
}

TEST(a_wait_that_ends_after_handlers_takes_the_wake_that_came_meanwhile)
{
	among_handlers(true);
}

/* ---- the release names a word ---- */

static void sleep_for_lock(void *arg)
{
	*(int *)arg = futex_wait(then, 0, (uint32_t)FUTEX_ANY, NULL, 0);
	/* It has the lock, and ends the wait of who let it go. */
	written = 1;
	count_of[0] = queue_wake(count, 1);
}

static void release_to_sleeper(void *arg)
{
	model_until(stage_parked, &actors[0].g, "the other sleeps");
	*(int *)arg = queue_on(NULL, let_go_and_wake, NULL);
}

static void check_released(void)
{
	check_woken();
	EXPECT_EQ(result[1], 0);
}

static void released_to(int way)
{
	begin_queue(way);
	stage_g("sleeper", sleep_for_lock, &result[1]);
	stage_g("waiter", release_to_sleeper, &result[0]);
	model_finally(check_released);
}

TEST(the_one_who_waits_for_the_lock_has_it)
{
	released_to(0);
}

TEST(the_one_who_waits_for_the_lock_in_one_bucket_has_it)
{
	released_to(2);
}

TEST(the_one_who_waits_for_the_lock_of_a_foreign_thread_has_it)
{
	begin_queue(0);
	stage_g("sleeper", sleep_for_lock, &result[1]);
	stage_foreign("waiter", release_to_sleeper, &result[0]);
	model_finally(check_released);
}

static void foreign_sleep_for_lock(void *arg)
{
	(void)arg;
	result[1] = futex_wait(then, 0, (uint32_t)FUTEX_ANY, NULL, 0);
	until_released(&one);
	written = 1;
	count_of[0] = queue_wake(count, 1);
}

static void change_lock_and_release(void *arg)
{
	st_rlx(then, 1);
	*(int *)arg = queue_on(NULL, let_go_and_wake, NULL);
}

static void check_foreign_released(void)
{
	check_woken();
	EXPECT(result[1] == 0 || result[1] == -EAGAIN_);
}

TEST(a_g_and_a_foreign_thread_pass_the_lock)
{
	begin_queue(0);
	stage_g("waiter", change_lock_and_release, &result[0]);
	stage_foreign("sleeper", foreign_sleep_for_lock, NULL);
	model_finally(check_foreign_released);
}

/* ---- one that holds the lock wakes another ---- */

static void pass_and_let_go(void *arg)
{
	(void)arg;
	until_released(&one);
	written = 1;
	queue_pass(count, keeps_then);
	let_go_of_held();
}

static void check_passed(void)
{
	check_counts();
	EXPECT_EQ(result[0], 0);
	EXPECT_EQ(chained[0], held);
	EXPECT_EQ(count_of[0], held);
}

static void passed_to(int way, bool holds)
{
	begin_queue(way);
	held = holds;
	stage_g("waiter", wait_or_move, &result[0]);
	stage_g("holder", pass_and_let_go, NULL);
	model_finally(check_passed);
}

TEST(one_that_is_passed_on_has_the_lock_next)
{
	passed_to(0, true);
}

TEST(one_that_is_passed_on_downwards_has_the_lock_next)
{
	passed_to(1, true);
}

TEST(one_that_is_passed_on_within_a_bucket_has_the_lock_next)
{
	passed_to(2, true);
}

TEST(one_is_woken_by_who_holds_no_lock)
{
	passed_to(0, false);
}

TEST(a_foreign_waiter_is_passed_on)
{
	begin_queue(0);
	held = true;
	stage_foreign("waiter", wait_or_move, &result[0]);
	stage_g("holder", pass_and_let_go, NULL);
	model_finally(check_passed);
}

static void check_passed_in_time(void)
{
	check_counts();
	EXPECT(result[0] == 0 || result[0] == -ETIMEDOUT_);
	EXPECT_EQ(chained[0], result[0] == 0);
	/* Its time may be up where it was left. */
	EXPECT(count_of[0] == 0 || result[0] == 0);
	model_reach(result[0] != 0 ? 0 : count_of[0] ? 1 : 2);
}

TEST(a_deadline_beside_one_that_passes_on_loses_nobody)
{
	begin_queue(0);
	held = true;
	stage_g("waiter", wait_or_move_timed, &result[0]);
	stage_g("holder", pass_and_let_go, NULL);
	model_finally(check_passed_in_time);
	model_must_reach(3);
}

/* ---- broadcasts ---- */

static void broadcast_two(void *arg)
{
	(void)arg;
	until_released(&two);
	written = 1;
	queue_wakeall(count, keeps_then);
	let_go_of_held();
}

static void check_both(void)
{
	check_counts();
	EXPECT_EQ(*then, 0);
	EXPECT(result[0] == 0 && result[1] == 0);
	/* One of them was left at the lock, if not both, and both know of it. */
	EXPECT(chained[0] && chained[1]);
	EXPECT_EQ(count_of[0], held);
}

static void broadcast(int way, bool holds)
{
	begin_queue(way);
	held = holds;
	stage_g("waiter1", wait_or_move, &result[0]);
	stage_g("waiter2", wait_or_move, &result[1]);
	stage_g("waker", broadcast_two, NULL);
	model_finally(check_both);
}

TEST(a_broadcast_wakes_one_and_that_the_other)
{
	broadcast(0, false);
}

TEST(a_broadcast_downwards_wakes_one_and_that_the_other)
{
	broadcast(1, false);
}

TEST(a_broadcast_within_a_bucket_wakes_one_and_that_the_other)
{
	broadcast(2, false);
}

TEST(a_broadcast_of_who_holds_the_lock_leaves_both_there)
{
	broadcast(0, true);
}

TEST(a_broadcast_downwards_of_who_holds_the_lock_leaves_both_there)
{
	broadcast(1, true);
}

TEST(a_broadcast_within_a_bucket_of_who_holds_the_lock_leaves_both_there)
{
	broadcast(2, true);
}

TEST(a_broadcast_reaches_a_g_and_a_foreign_thread)
{
	begin_queue(0);
	stage_g("waiter1", wait_or_move, &result[0]);
	stage_foreign("waiter2", wait_or_move, &result[1]);
	stage_foreign("waker", broadcast_two, NULL);
	model_finally(check_both);
}

static void check_broadcast_among_handlers(void)
{
	check_counts();
	EXPECT_EQ(*then, 0);
	EXPECT_EQ(result[0], 0);
	EXPECT_EQ(result[1], 0);
	model_reach(asked != 0);
}

static void broadcast_among_handlers(int way, bool holds)
{
	begin_queue(way);
	held = holds;
	stage_g("waiter1", wait_among_handlers, &result[0]);
	stage_g("waiter2", wait_or_move, &result[1]);
	stage_g("waker", broadcast_two, NULL);
	stage_g("signaller", interrupt_first, NULL);
	model_finally(check_broadcast_among_handlers);
	model_must_reach(2);
}

TEST_BOUND(a_broadcast_reaches_one_who_runs_handlers, 2)
{
	broadcast_among_handlers(0, false);
}

TEST_BOUND(a_broadcast_within_a_bucket_reaches_one_who_runs_handlers, 2)
{
	broadcast_among_handlers(2, false);
}

TEST_BOUND(a_broadcast_of_who_holds_the_lock_reaches_one_who_runs_handlers, 2)
{
	broadcast_among_handlers(0, true);
}

static void check_passed_among_handlers(void)
{
	check_counts();
	EXPECT_EQ(result[0], 0);
	model_reach(asked != 0);
}

TEST(one_who_runs_handlers_is_not_passed_on)
{
	begin_queue(0);
	held = true;
	stage_g("waiter", wait_among_handlers, &result[0]);
	stage_g("holder", pass_and_let_go, NULL);
	stage_g("signaller", interrupt_first, NULL);
	model_finally(check_passed_among_handlers);
	model_must_reach(2);
}

/* Moved to the lock before they are parked, each is woken there by the other's release, or by its
 * own: whatever happens, all come back. */
MODEL_UNWATCHED static bool all_wait(const void *n)
{
	return linked_waiters() == *(const unsigned *)n;
}

static void broadcast_waiting(void *arg)
{
	model_until(all_wait, arg, "they wait");
	written = 1;
	queue_wakeall(count, keeps_then);
}

static void check_tangled(void)
{
	check_counts();
	for (int i = 0; i < 3; i++)
		EXPECT(result[i] == 0 && chained[i]);
	/* One had woken itself, and did not park. */
	model_reach(stage_nready < 3);
}

static void tangle(int way)
{
	begin_queue(way);
	stage_g("first", wait_or_move, &result[0]);
	stage_g("second", wait_tangled, &result[1]);
	stage_g("third", wait_tangled, &result[2]);
	stage_g("waker", broadcast_waiting, (void *)(uintptr_t)&three);
	model_finally(check_tangled);
	model_must_reach(2);
}

TEST_BOUND(waits_that_release_each_other_both_end, 2)
{
	tangle(0);
}

TEST_BOUND(waits_that_release_each_other_in_one_bucket_both_end, 2)
{
	tangle(2);
}

/* ---- moved, and then in time or not ---- */

static void check_moved(void)
{
	check_counts();
	EXPECT(result[0] == 0 || result[0] == -ETIMEDOUT_);
	EXPECT_EQ(result[1], 0);
	model_reach(result[0] == 0);
}

static void moved_beside_deadline(int way, bool holds)
{
	begin_queue(way);
	held = holds;
	stage_g("timed", wait_or_move_timed, &result[0]);
	stage_g("waiter", wait_or_move, &result[1]);
	stage_g("waker", broadcast_two, NULL);
	model_finally(check_moved);
	model_must_reach(2);
}

TEST_BOUND(a_deadline_beside_a_broadcast_loses_nobody, 3)
{
	moved_beside_deadline(0, false);
}

TEST_BOUND(a_deadline_beside_a_broadcast_downwards_loses_nobody, 3)
{
	moved_beside_deadline(1, false);
}

TEST_BOUND(a_deadline_beside_a_broadcast_of_who_holds_the_lock_loses_nobody, 3)
{
	moved_beside_deadline(0, true);
}

static void wait_second_or_move_timed(void *arg)
{
	static const unsigned first = 1;

	model_until(all_wait, &first, "the other waits");
	wait_and_pass_on(&soon, let_go, arg);
}

static void check_in_time(void)
{
	check_moved();
	/* Nobody wakes it first, so it was moved; and so was woken, whatever the time. */
	EXPECT(result[0] == 0 || !chained[0]);
}

TEST_BOUND(one_who_was_moved_was_woken_in_time, 3)
{
	begin_queue(0);
	stage_g("waiter", wait_or_move, &result[1]);
	stage_g("timed", wait_second_or_move_timed, &result[0]);
	stage_g("waker", broadcast_two, NULL);
	model_finally(check_in_time);
	model_must_reach(2);
}

static void wake_and_broadcast(void *arg)
{
	until_released(&two);
	written = 1;
	*(int *)arg = queue_wake(count, 1);
	queue_wakeall(count, keeps_then);
}

static void check_wake_and_broadcast(void)
{
	check_counts();
	EXPECT(result[0] == 0 && result[1] == 0);
	EXPECT_EQ(count_of[0], 1);
	EXPECT_EQ(stage_nready, 2);
}

TEST(a_wake_and_a_broadcast_end_each_wait_once)
{
	begin_queue(0);
	stage_g("waiter1", wait_or_move, &result[0]);
	stage_g("waiter2", wait_or_move, &result[1]);
	stage_g("waker", wake_and_broadcast, &count_of[0]);
	model_finally(check_wake_and_broadcast);
}
