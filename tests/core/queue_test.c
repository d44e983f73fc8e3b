/* queue.c: waiting without a value. What is woken, what is moved, what the count says. */
#include "futex.h"

#include <pthread.h>
#include <unistd.h>

#include "host.h"
#include "sched.h"

enum { ETIMEDOUT_ = 110, EINTR_ = 4, MS = 1000 * 1000, MONO = 1 };

static ATOMIC(uint32_t) queue, word, ended, turn, order[64];
static struct group grp;

struct wait {
	int id;
	bool move;
	const struct deadline *deadline;
	int result;
	bool chained;
	ATOMIC(uint32_t) released;
	struct g *gp;
};

static ATOMIC(uint32_t) *note_release(void *arg)
{
	struct wait *w = arg;

	/* By then it is in the queue. */
	EXPECT(ld_rlx(&queue) > 0);
	st_sc(&w->released, 1);
	return NULL;
}

static void waits(void *arg)
{
	struct wait *w = arg;

	w->result = queue_wait(&queue, w->deadline, false, note_release, NULL, w,
			       w->move ? &word : NULL, &w->chained);
	st_sc(&order[add_sc(&turn, 1)], (uint32_t)w->id);
	raise_by(&ended, 1);
	group_done(&grp);
}

/* Starts n waits, one after the other, so that their order is known. */
static void start_waits(struct wait *w, int n)
{
	grp.left = (uint32_t)n;
	for (int i = 0; i < n; i++) {
		w[i].id = i;
		w[i].gp = go(waits, &w[i]);
		while (!ld_sc(&w[i].released))
			gosched();
		until_waiting(w[i].gp);
	}
	EXPECT_EQ(ld_sc(&queue), n);
}

static void ended_are(uint32_t n)
{
	wait_raised(&ended, n);
	/* For no more to end in this time. */
	sleep_ns(2 * MS);
	EXPECT_EQ(ld_sc(&ended), n);
}

TEST(the_oldest_is_woken_first_and_the_count_falls)
{
	static struct wait w[5];

	start(1);
	start_waits(w, 5);
	EXPECT_EQ(queue_wake(&queue, 2), 2);
	EXPECT_EQ(ld_sc(&queue), 3);
	ended_are(2);
	EXPECT_EQ(order[0] + order[1], 1);
	EXPECT_EQ(queue_wake(&queue, 100), 3);
	EXPECT_EQ(ld_sc(&queue), 0);
	EXPECT_EQ(queue_wake(&queue, 1), 0);
	group_wait(&grp);
	for (int i = 0; i < 5; i++)
		EXPECT_EQ(w[i].result, 0);
}

TEST(one_whose_time_is_up_leaves_the_count)
{
	static struct wait w[2];
	struct deadline d = { MONO, 0 };

	start(2);
	start_waits(w, 1);
	/* It may be up before we could see it wait. */
	grp.left = 2;
	w[1].id = 1;
	w[1].deadline = &d;
	d.at = now_ns() + 20 * MS;
	go(waits, &w[1]);
	ended_are(1);
	EXPECT_EQ(w[1].result, -ETIMEDOUT_);
	EXPECT_EQ(ld_sc(&queue), 1);
	EXPECT_EQ(queue_wake(&queue, 2), 1);
	group_wait(&grp);
}

TEST(one_who_is_interrupted_leaves_the_count)
{
	static struct wait w[1];

	start(2);
	start_waits(w, 1);
	EXPECT(gointerrupt(w[0].gp));
	group_wait(&grp);
	EXPECT_EQ(w[0].result, -EINTR_);
	EXPECT_EQ(ld_sc(&queue), 0);
}

static void holds_word(void *arg)
{
	st_sc((ATOMIC(uint32_t) *)arg, 1);
	EXPECT_EQ(futex_wait(&word, 7, (uint32_t)FUTEX_ANY, NULL, 0), 0);
	st_sc((ATOMIC(uint32_t) *)arg, 2);
}

static ATOMIC(uint32_t) *names_word(void *arg)
{
	(void)arg;
	return &word;
}

TEST(the_release_names_a_word_where_one_is_woken)
{
	static ATOMIC(uint32_t) state;
	struct deadline d = { MONO, 0 };

	start(1);
	st_sc(&word, 7);
	struct g *gp = go(holds_word, (void *)(uintptr_t)&state);
	while (ld_sc(&state) != 1)
		gosched();
	until_waiting(gp);
	d.at = now_ns() + 100 * MS;
	EXPECT_EQ(queue_wait(&queue, &d, false, names_word, NULL, NULL, NULL, NULL), -ETIMEDOUT_);
	EXPECT_EQ(ld_sc(&state), 2);
}

static bool nobody_keeps(ATOMIC(uint32_t) *addr)
{
	(void)addr;
	return false;
}

static bool caller_keeps(ATOMIC(uint32_t) *addr)
{
	EXPECT(addr == &word);
	return true;
}

/* Each wakes the next at the word. */
static void ends_in_turn(uint32_t from, uint32_t to)
{
	for (uint32_t n = from; n <= to; n++) {
		EXPECT_EQ(futex_wake(&word, 1, (uint32_t)FUTEX_ANY, 0), 1);
		ended_are(n);
	}
	EXPECT_EQ(futex_wake(&word, 1, (uint32_t)FUTEX_ANY, 0), 0);
	group_wait(&grp);
}

TEST(a_broadcast_wakes_one_and_moves_the_others)
{
	static struct wait w[6];

	start(2);
	for (int i = 0; i < 6; i++)
		w[i].move = i != 3;
	start_waits(w, 6);
	queue_wakeall(&queue, nobody_keeps);
	EXPECT_EQ(ld_sc(&queue), 0);
	/* The first, and the one that cannot be moved. */
	ended_are(2);
	EXPECT_EQ(w[0].result, 0);
	EXPECT(w[0].chained);
	EXPECT_EQ(order[0] + order[1], 3);
	ends_in_turn(3, 6);
}

TEST(a_broadcast_of_who_holds_the_word_moves_all_but_with_one_P)
{
	static struct wait w[4], one[2];

	start(2);
	for (int i = 0; i < 4; i++)
		w[i].move = i != 2;
	start_waits(w, 4);
	queue_wakeall(&queue, caller_keeps);
	EXPECT_EQ(ld_sc(&queue), 0);
	/* The one that cannot be moved. */
	ended_are(1);
	EXPECT_EQ(order[0], 2);
	ends_in_turn(2, 4);
	for (int i = 0; i < 4; i++)
		EXPECT_EQ(w[i].result, 0);
	EXPECT(w[0].chained);
	core_setprocs(1);
	st_sc(&ended, 0);
	one[0].move = one[1].move = true;
	start_waits(one, 2);
	queue_wakeall(&queue, caller_keeps);
	ended_are(1);
	ends_in_turn(2, 2);
}

/* True if they were moved in time; otherwise it says nothing. */
static bool moved_within(uint64_t ms)
{
	struct wait w[2] = { { .move = true }, { .id = 1, .move = true } };
	struct deadline d = { MONO, 0 };
	bool in_time;

	start_waits(w, 1);
	grp.left = 2;
	w[1].deadline = &d;
	d.at = now_ns() + ms * MS;
	go(waits, &w[1]);
	while (!ld_sc(&w[1].released))
		gosched();
	queue_wakeall(&queue, nobody_keeps);
	in_time = now_ns() < d.at;
	group_wait(&grp);
	EXPECT(now_ns() >= d.at || !in_time);
	EXPECT_EQ(w[0].result, 0);
	EXPECT(w[1].result == 0 || !in_time);
	EXPECT_EQ(futex_wake(&word, 1, (uint32_t)FUTEX_ANY, 0), 0);
	return in_time;
}

TEST(one_moved_in_time_has_not_timed_out)
{
	start(2);
	for (uint64_t ms = 100; !moved_within(ms); ms *= 2)
		continue;
}

static void *foreign_wait(void *arg)
{
	waits(arg);
	return NULL;
}

TEST(a_kernel_thread_that_is_no_m_waits_in_the_same_queue)
{
	static struct wait w[2];
	pthread_t t;

	start(1);
	start_waits(w, 1);
	grp.left = 2;
	w[1].id = 1;
	EXPECT_EQ(pthread_create(&t, NULL, foreign_wait, &w[1]), 0);
	/* The count alone tells of it: whoever joins may not call the core. But note_release is to
	 * find it in the queue. */
	while (ld_sc(&queue) != 2 || !ld_sc(&w[1].released))
		gosched();
	EXPECT_EQ(queue_wake(&queue, 2), 2);
	group_wait(&grp);
	EXPECT_EQ(w[1].result, 0);
	pthread_join(t, NULL);
}

/* ---- storm: a lock and a condition made of the two, as interpose makes them ---- */
enum { GS = 40, TURNS = 400 };

static ATOMIC(uint32_t) lockword, condition;
static uint32_t tokens, taken, put;

static void take_lock(uint32_t as)
{
	if (cas_acq(&lockword, 0, as))
		return;
	while (xchg_acq(&lockword, 2) != 0)
		futex_wait(&lockword, 2, (uint32_t)FUTEX_ANY, NULL, 0);
}

static ATOMIC(uint32_t) *letgo(void *arg)
{
	(void)arg;
	return xchg_sc(&lockword, 0) == 2 ? &lockword : NULL;
}

static void give_lock(void)
{
	if (letgo(NULL))
		futex_wake(&lockword, 1, (uint32_t)FUTEX_ANY, FUTEX_FENCED);
}

/* It is the caller's. */
static bool holds_lock(ATOMIC(uint32_t) *addr)
{
	EXPECT(addr == &lockword);
	cas_rlx(addr, 1, 2);
	return true;
}

static void wait_condition(const struct deadline *d)
{
	bool chained = false;

	queue_wait(&condition, d, false, letgo, NULL, NULL, &lockword, &chained);
	take_lock(chained ? 2 : 1);
}

static void consumer(void *arg)
{
	uint64_t seed = test_seed() + (uintptr_t)arg;

	take_lock(1);
	for (int n = 0; n < TURNS;) {
		struct deadline d = { MONO, now_ns() + random_below(&seed, 200) * 1000 };
		if (tokens > 0) {
			tokens--;
			taken++;
			n++;
			continue;
		}
		wait_condition(random_below(&seed, 3) ? NULL : &d);
	}
	give_lock();
	group_done(&grp);
}

static void producer(void *arg)
{
	uint64_t seed = test_seed() ^ (uintptr_t)arg;

	for (int n = 0; n < TURNS;) {
		uint32_t more = 1 + random_below(&seed, 4);
		take_lock(1);
		if (more > (uint32_t)(TURNS - n))
			more = (uint32_t)(TURNS - n);
		tokens += more;
		put += more;
		n += (int)more;
		if (more > 1 && ld_rlx(&condition) != 0)
			queue_wakeall(&condition,
				      random_below(&seed, 2) ? holds_lock : nobody_keeps);
		else if (ld_rlx(&condition) != 0)
			queue_wake(&condition, 1);
		give_lock();
		if (random_below(&seed, 4) == 0)
			gosched();
	}
	group_done(&grp);
}

static void storm(int procs)
{
	start(procs);
	grp.left = 2 * GS;
	for (uintptr_t i = 0; i < GS; i++) {
		go(consumer, (void *)(i + 1));
		go(producer, (void *)(i + 1));
	}
	group_wait(&grp);
	EXPECT_EQ(put, GS * TURNS);
	EXPECT_EQ(taken, GS * TURNS);
	EXPECT_EQ(tokens, 0);
	EXPECT_EQ(ld_sc(&condition), 0);
	EXPECT_EQ(ld_sc(&lockword), 0);
}

TEST(no_wake_up_is_lost_among_signals_broadcasts_and_deadlines_on_one_p)
{
	storm(1);
}

TEST(no_wake_up_is_lost_among_signals_broadcasts_and_deadlines_on_two)
{
	storm(2);
}

TEST(no_wake_up_is_lost_among_signals_broadcasts_and_deadlines_on_eight)
{
	storm(8);
}
