/* The futex: its results, its order, who is counted, and that no wake-up is lost between
 * Gs and kernel threads of any kind. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "host.h"
#include "sched.h"

enum {
	MS = 1000 * 1000,
	SECOND = 1000 * MS,
	MONO = 1,
	REAL = 0,
	EINTR_ = 4,
	EAGAIN_ = 11,
	ETIMEDOUT_ = 110,
};

/* Longer than any machine keeps one from the cpu. */
static const uint64_t LATE_NS = 20 * (uint64_t)SECOND;

#define ALL_BITS ((uint32_t)FUTEX_ANY)

static ATOMIC(uint32_t) word, word2;
static struct group grp;

/* What happened, in order: ids, plus one. */
static ATOMIC(uint32_t) order[64];
static ATOMIC(uint32_t) norder;

static void note_order(uint32_t id)
{
	st_rel(&order[add_sc(&norder, 1)], id + 1);
}

/* The i-th to note itself, once it has. */
static uint32_t noted(uint32_t i)
{
	uint32_t id;

	while ((id = ld_acq(&order[i])) == 0)
		gosched();
	return id - 1;
}

static int wake(ATOMIC(uint32_t) *at, int n)
{
	return futex_wake(at, n, ALL_BITS, 0);
}

/* A G that waits on word, with the bits and flags of its argument, then says so. */
struct waiting {
	uint32_t id, bits;
	int flags, result;
	const struct deadline *deadline;
	ATOMIC(bool) over;
};

static void waiter(void *arg)
{
	struct waiting *w = arg;

	w->result = futex_wait(&word, 0, w->bits, w->deadline, w->flags);
	note_order(w->id);
	st_rel(&w->over, true);
	group_done(&grp);
}

static struct g *go_wait(struct waiting *w, uint32_t id, uint32_t bits, int flags)
{
	struct g *gp;

	w->id = id;
	w->bits = bits;
	w->flags = flags;
	add_sc(&grp.left, 1);
	st_rlx(&w->over, false);
	gp = go(waiter, w);
	/* Its time may be up before we could see it wait. */
	while (ld_acq(&gp->status) != GWAITING && !ld_acq(&w->over))
		gosched();
	return gp;
}

/* So many that came one after the other, with the ids 0.. */
static void go_wait_in_a_row(struct waiting *w, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		go_wait(&w[i], i, ALL_BITS, 0);
}

/* ---- results ---- */

TEST(a_wait_on_another_value_returns_eagain)
{
	struct deadline never = { MONO, UINT64_MAX / 2 };

	start(1);
	word = 7;
	EXPECT_EQ(futex_wait(&word, 8, ALL_BITS, NULL, 0), -EAGAIN_);
	EXPECT_EQ(futex_wait(&word, 8, ALL_BITS, &never, 0), -EAGAIN_);
	/* It is not counted as a waiter. */
	EXPECT_EQ(wake(&word, FUTEX_ANY), 0);
}

TEST(a_wake_of_nobody_returns_0_fast)
{
	enum { TIMES = 100000 };
	struct stats before, after;
	uint64_t t;

	start(2);
	t = now_ns();
	stats_sum(&before);
	for (int i = 0; i < TIMES; i++) {
		EXPECT_EQ(wake(&word, FUTEX_ANY), 0);
		EXPECT_EQ(futex_wake(&word, 1, ALL_BITS, FUTEX_HANDOFF), 0);
	}
	stats_sum(&after);
	EXPECT_EQ(after.switches, before.switches);
	/* Some 10 ns each; a system call each would be 20 ms. */
	EXPECT(now_ns() - t < SECOND);
}

static void time_out(int clock, uint64_t ns)
{
	struct deadline d = { clock, os_clock(clock) + ns };

	EXPECT_EQ(futex_wait(&word, 0, ALL_BITS, &d, 0), -ETIMEDOUT_);
	EXPECT(os_clock(clock) >= d.at);
	EXPECT(os_clock(clock) - d.at < LATE_NS);
	EXPECT_EQ(wake(&word, FUTEX_ANY), 0);
}

TEST(a_wait_times_out_on_both_clocks)
{
	struct deadline past = { MONO, 1 };

	start(2);
	for (uint64_t ns = 0; ns < 60 * MS; ns = ns * 4 + 1000) {
		time_out(MONO, ns);
		time_out(REAL, ns);
	}
	EXPECT_EQ(futex_wait(&word, 0, ALL_BITS, &past, 0), -ETIMEDOUT_);
}

TEST(a_wake_before_the_deadline_leaves_no_timer)
{
	struct deadline far = { REAL, 0 };
	struct waiting w = { .deadline = &far };

	start(1);
	far.at = os_clock(REAL) + 1000ull * SECOND;
	go_wait(&w, 0, ALL_BITS, 0);
	EXPECT_EQ(sched.allp[0]->timers.n, 1);
	EXPECT_EQ(wake(&word, 1), 1);
	group_wait(&grp);
	EXPECT_EQ(w.result, 0);
	EXPECT_EQ(sched.allp[0]->timers.n, 0);
}

TEST(an_interrupt_ends_a_wait_once)
{
	struct waiting w = { 0 };
	struct g *gp;

	start(2);
	gp = go_wait(&w, 0, ALL_BITS, 0);
	EXPECT(gointerrupt(gp));
	EXPECT(!gointerrupt(gp));
	group_wait(&grp);
	EXPECT_EQ(w.result, -EINTR_);
	EXPECT_EQ(wake(&word, FUTEX_ANY), 0);
}

TEST(a_token_is_handed_only_to_one_who_waits)
{
	static ATOMIC(int32_t) token;
	struct waiting w[2] = { { 0 } };
	struct g *gp;

	start_with(1, without_preemption);
	EXPECT(!futex_hand(&word, &token, 7));
	gp = go_wait(&w[0], 0, ALL_BITS, 0);
	/* It has given up, and has yet to leave the queue. */
	EXPECT(gointerrupt(gp));
	EXPECT(!futex_hand(&word, &token, 7));
	EXPECT_EQ(token, 0);
	EXPECT_EQ(noted(0), 0);
	EXPECT_EQ(w[0].result, -EINTR_);
	go_wait(&w[1], 1, ALL_BITS, 0);
	EXPECT(futex_hand(&word, &token, 7));
	EXPECT_EQ(token, 7);
	group_wait(&grp);
	EXPECT_EQ(w[1].result, 0);
}

/* ---- order ---- */

/* Of several that one wake makes ready, each says so as it runs: on one P, in their order, unless
 * a slice ends between the wake and the word. */

TEST(only_waiters_whose_bits_meet_the_wakers_are_woken)
{
	struct waiting w[3] = { { 0 } };

	start_with(1, without_preemption);
	go_wait(&w[0], 0, 1, 0);
	go_wait(&w[1], 1, 2, 0);
	go_wait(&w[2], 2, 3, 0);
	EXPECT_EQ(futex_wake(&word, FUTEX_ANY, 4, 0), 0);
	EXPECT_EQ(futex_wake(&word, FUTEX_ANY, 2, 0), 2);
	EXPECT_EQ(noted(0), 1);
	EXPECT_EQ(noted(1), 2);
	EXPECT_EQ(futex_wake(&word, 1, 1, 0), 1);
	group_wait(&grp);
	EXPECT_EQ(noted(2), 0);
}

TEST(waiters_are_woken_in_the_order_in_which_they_came)
{
	enum { N = 50 };
	struct waiting w[N] = { { 0 } };

	start(4);
	go_wait_in_a_row(w, N);
	for (uint32_t i = 0; i < N; i++) {
		EXPECT_EQ(wake(&word, 1), 1);
		EXPECT_EQ(noted(i), i);
	}
	group_wait(&grp);
}

TEST(a_lifo_waiter_is_woken_first)
{
	static const uint32_t expected[] = { 3, 2, 0, 1, 4 };
	struct waiting w[5] = { { 0 } };

	start(1);
	go_wait_in_a_row(w, 2);
	go_wait(&w[2], 2, ALL_BITS, FUTEX_LIFO);
	go_wait(&w[3], 3, ALL_BITS, FUTEX_LIFO);
	go_wait(&w[4], 4, ALL_BITS, 0);
	for (uint32_t i = 0; i < 5; i++) {
		EXPECT_EQ(wake(&word, 1), 1);
		EXPECT_EQ(noted(i), expected[i]);
	}
}

static void come_by_and_by(void *arg)
{
	note_order((uint32_t)(uintptr_t)arg);
	group_done(&grp);
}

/* Others are in the queue before the woken one and the waker. */
static void wake_before_others(int flags)
{
	enum { OTHERS = 5 };
	struct waiting w = { 0 };

	start_with(1, without_sysmon);
	go_wait(&w, 100, ALL_BITS, 0);
	grp.left += OTHERS;
	for (uintptr_t i = 0; i < OTHERS; i++)
		go(come_by_and_by, (void *)i);
	EXPECT_EQ(futex_wake(&word, 1, ALL_BITS, flags), 1);
	note_order(200);
	group_wait(&grp);
}

TEST(a_handoff_runs_the_waiter_in_the_wakers_place)
{
	static const uint32_t expected[] = { 100, 0, 1, 2, 3, 4, 200 };

	wake_before_others(FUTEX_HANDOFF);
	for (uint32_t i = 0; i < 7; i++)
		EXPECT_EQ(noted(i), expected[i]);
}

TEST(a_plain_wake_lets_the_waker_go_on)
{
	static const uint32_t expected[] = { 200, 100, 0, 1, 2, 3, 4 };

	wake_before_others(0);
	for (uint32_t i = 0; i < 7; i++)
		EXPECT_EQ(noted(i), expected[i]);
}

/* ---- requeue ---- */

TEST(a_requeue_wakes_some_moves_some_and_counts_both)
{
	enum { N = 10 };
	struct waiting w[N] = { { 0 } };

	start_with(1, without_preemption);
	go_wait_in_a_row(w, N);
	EXPECT_EQ(futex_requeue(&word, 1, &word2, 3, true, 5), -EAGAIN_);
	EXPECT_EQ(futex_requeue(&word, 1, &word2, 3, true, 0), 4);
	EXPECT_EQ(wake(&word2, FUTEX_ANY), 3);
	EXPECT_EQ(wake(&word, FUTEX_ANY), 6);
	EXPECT_EQ(wake(&word2, FUTEX_ANY), 0);
	group_wait(&grp);
	for (uint32_t i = 0; i < N; i++) {
		EXPECT_EQ(noted(i), i);
		EXPECT_EQ(w[i].result, 0);
	}
}

TEST(a_requeue_of_all_keeps_their_order_behind_those_that_wait_there)
{
	enum { N = 10 };
	struct waiting w[N] = { { 0 } };

	start(1);
	go_wait_in_a_row(w, N / 2);
	EXPECT_EQ(futex_requeue(&word, 0, &word2, FUTEX_ANY, false, 99), N / 2);
	for (uint32_t i = N / 2; i < N; i++)
		go_wait(&w[i], i, ALL_BITS, 0);
	EXPECT_EQ(futex_requeue(&word, 0, &word2, FUTEX_ANY, false, 99), N / 2);
	EXPECT_EQ(wake(&word, FUTEX_ANY), 0);
	/* To where they are is nowhere. */
	EXPECT_EQ(futex_requeue(&word2, 0, &word2, FUTEX_ANY, false, 0), 0);
	for (uint32_t i = 0; i < N; i++) {
		EXPECT_EQ(wake(&word2, 1), 1);
		EXPECT_EQ(noted(i), i);
	}
}

TEST(a_moved_waiter_still_times_out_and_can_be_interrupted)
{
	struct deadline soon = { MONO, 0 };
	struct waiting timed = { .deadline = &soon }, plain = { 0 };
	uint64_t ns = 100 * (uint64_t)MS;
	struct g *gp;
	int moved;

	start(2);
	/* Late enough for both to be moved before, however slow the machine is. */
	do {
		ns *= 2;
		soon.at = now_ns() + ns;
		go_wait(&timed, 0, ALL_BITS, 0);
		gp = go_wait(&plain, 1, ALL_BITS, 0);
		moved = futex_requeue(&word, 0, &word2, FUTEX_ANY, false, 0);
		EXPECT(moved == 2 || (moved == 1 && now_ns() >= soon.at));
		EXPECT(gointerrupt(gp));
		group_wait(&grp);
	} while (moved != 2);
	EXPECT_EQ(plain.result, -EINTR_);
	EXPECT_EQ(timed.result, -ETIMEDOUT_);
	EXPECT_EQ(wake(&word2, FUTEX_ANY), 0);
	EXPECT_EQ(wake(&word, FUTEX_ANY), 0);
}

/* ---- kernel threads that are no Ms ---- */

static void *foreign_waiter(void *arg)
{
	waiter(arg);
	return NULL;
}

TEST(a_foreign_thread_has_all_results_too)
{
	enum { MORE = 3 };
	struct waiting w[MORE] = { { 0 } };
	pthread_t threads[MORE];

	start(2);
	grp.left = MORE;
	for (uint32_t i = 0; i < MORE; i++) {
		w[i].id = i;
		w[i].bits = 1u << i;
		pthread_create(&threads[i], NULL, foreign_waiter, &w[i]);
	}
	/* One at a time: each is told by its bit. */
	for (uint32_t i = 0; i < MORE; i++) {
		while (futex_wake(&word, FUTEX_ANY, 1u << i, 0) == 0)
			gosched();
		EXPECT_EQ(noted(i), i);
		EXPECT_EQ(w[i].result, 0);
	}
	for (uint32_t i = 0; i < MORE; i++)
		pthread_join(threads[i], NULL);
}

static void *foreign_results(void *arg)
{
	(void)arg;
	EXPECT(getg() == NULL);
	EXPECT_EQ(futex_wait(&word, 1, ALL_BITS, NULL, 0), -EAGAIN_);
	time_out(MONO, 0);
	time_out(MONO, 5 * MS);
	time_out(REAL, 5 * MS);
	EXPECT_EQ(wake(&word, FUTEX_ANY), 0);
	EXPECT_EQ(futex_requeue(&word, 1, &word2, 1, true, 1), -EAGAIN_);
	st_rel(&word2, 1);
	EXPECT_EQ(wake(&word2, 1), 1);
	return NULL;
}

TEST(a_foreign_thread_times_out_and_sees_other_values)
{
	pthread_t thread;

	start(1);
	pthread_create(&thread, NULL, foreign_results, NULL);
	EXPECT_EQ(futex_wait(&word2, 0, ALL_BITS, NULL, 0), 0);
	pthread_join(thread, NULL);
}

static void no_handler(int sig)
{
	(void)sig;
}

static ATOMIC(uint32_t) interrupted;

static void *wait_for_a_signal(void *arg)
{
	struct waiting *w = arg;

	w->result = futex_wait(&word, 0, ALL_BITS, NULL, 0);
	raise_by(&interrupted, 1);
	return NULL;
}

TEST(a_signal_interrupts_a_foreign_threads_wait)
{
	struct sigaction act = { .sa_handler = no_handler };
	struct waiting w = { 0 };
	pthread_t thread;

	start(1);
	sigaction(SIGUSR1, &act, NULL);
	pthread_create(&thread, NULL, wait_for_a_signal, &w);
	/* Until one finds it asleep. */
	do
		pthread_kill(thread, SIGUSR1);
	while (!raised_within(&interrupted, 1, MS));
	pthread_join(thread, NULL);
	EXPECT_EQ(w.result, -EINTR_);
	EXPECT_EQ(wake(&word, FUTEX_ANY), 0);
}

/* A word that two sides hand to and fro: who finds its own number changes it and wakes. */
enum { TURNS = 20000 };

static uint64_t plain; /* of whoever has the word */

static void hand_to_and_fro(uint32_t own)
{
	for (uint32_t i = 0; i < TURNS; i++) {
		uint32_t v;
		while ((v = ld_acq(&word)) % 2 != own) {
			int r = futex_wait(&word, v, ALL_BITS, NULL, 0);
			EXPECT(r == 0 || r == -EAGAIN_);
		}
		EXPECT_EQ(plain, v);
		plain++;
		st_rel(&word, v + 1);
		wake(&word, 1);
	}
}

static void *foreign_side(void *arg)
{
	hand_to_and_fro(*(uint32_t *)arg);
	return NULL;
}

static void g_side(void *arg)
{
	hand_to_and_fro(*(uint32_t *)arg);
	group_done(&grp);
}

static uint32_t odd = 1;

TEST(a_g_and_a_foreign_thread_wake_each_other)
{
	pthread_t thread;

	start(2);
	pthread_create(&thread, NULL, foreign_side, &odd);
	hand_to_and_fro(0);
	pthread_join(thread, NULL);
	EXPECT_EQ(plain, 2 * TURNS);
}

static void two_gs(int procs)
{
	start_with(procs, without_sysmon);
	grp.left = 1;
	go(g_side, &odd);
	hand_to_and_fro(0);
	group_wait(&grp);
	EXPECT_EQ(plain, 2 * TURNS);
}

TEST(two_gs_on_one_p_wake_each_other)
{
	two_gs(1);
}

TEST(two_gs_on_two_ps_wake_each_other)
{
	two_gs(2);
}

/* ---- numbers ---- */

enum { CROWD = 10000, SMALL_CROWD = 2000 };

static ATOMIC(uint32_t) words[CROWD];
static ATOMIC(uint32_t) waiting_now;

static void one_of_a_crowd(void *arg)
{
	ATOMIC(uint32_t) *at = arg;
	int r;

	add_sc(&waiting_now, 1);
	r = futex_wait(at, 0, ALL_BITS, NULL, 0);
	EXPECT(r == 0);
	group_done(&grp);
}

static void until_all_wait(uint32_t n)
{
	struct stats s;

	while (ld_acq(&waiting_now) != n)
		gosched();
	/* They have said so; now until each is parked. */
	do {
		gosched();
		stats_sum(&s);
	} while (s.futexwaits < n);
}

/* ThreadSanitizer has room for some 8000 contexts. */
static uint32_t start_a_crowd(void)
{
	uint32_t n = can_preempt() ? CROWD : SMALL_CROWD;

	start(4);
	grp.left = n;
	return n;
}

TEST(ten_thousand_waiters_on_one_word_are_woken_by_one_broadcast)
{
	uint32_t n = start_a_crowd();

	for (uint32_t i = 0; i < n; i++)
		go(one_of_a_crowd, &word);
	until_all_wait(n);
	EXPECT_EQ(wake(&word, FUTEX_ANY), n);
	EXPECT_EQ(wake(&word, FUTEX_ANY), 0);
	group_wait(&grp);
}

TEST(ten_thousand_words_have_a_waiter_each)
{
	uint32_t n = start_a_crowd();

	for (uint32_t i = 0; i < n; i++)
		go(one_of_a_crowd, &words[i]);
	until_all_wait(n);
	/* In another order than that in which they came. */
	for (uint32_t i = 0; i < n; i++)
		EXPECT_EQ(wake(&words[i * 7919 % n], FUTEX_ANY), 1);
	group_wait(&grp);
}

/* ---- storms ---- */

/* Each end of a wait, as the waiters and as those who ended them count it. */
static ATOMIC(uint32_t) results_ok, results_timeout, results_intr;

static void wait_often(void *arg)
{
	uint64_t rng = (uintptr_t)arg * 0x9e3779b97f4a7c15u + test_seed();

	for (int i = 0; i < 300; i++) {
		struct deadline d = { random_below(&rng, 2) ? MONO : REAL, 0 };
		d.at = os_clock(d.clock) + random_below(&rng, 100) * 1000;
		switch (futex_wait(&words[random_below(&rng, 3)], 0, ALL_BITS, &d,
				   random_below(&rng, 4) == 0 ? FUTEX_LIFO : 0)) {
		case 0:
			add_rlx(&results_ok, 1);
			break;
		case -ETIMEDOUT_:
			add_rlx(&results_timeout, 1);
			break;
		case -EINTR_:
			add_rlx(&results_intr, 1);
			break;
		default:
			EXPECT(!"another result");
		}
	}
	group_done(&grp);
}

static void *wait_often_foreign(void *arg)
{
	wait_often(arg);
	return NULL;
}

TEST(wakes_timeouts_and_interrupts_that_race_add_up)
{
	enum { GS = 40, FOREIGN = 2 };
	uint64_t rng = test_seed() | 1;
	uint32_t woken = 0, broken = 0;
	struct g *gs[GS];
	pthread_t threads[FOREIGN];

	start(4);
	grp.left = GS + FOREIGN;
	for (uintptr_t i = 0; i < FOREIGN; i++)
		pthread_create(&threads[i], NULL, wait_often_foreign, (void *)(i + 1000));
	for (uintptr_t i = 0; i < GS; i++)
		gs[i] = go(wait_often, (void *)(i + 1));
	while (ld_acq(&grp.left) != 0) {
		ATOMIC(uint32_t) *at = &words[random_below(&rng, 3)];
		switch (random_below(&rng, 8)) {
		case 0:
			broken += gointerrupt(gs[random_below(&rng, GS)]);
			break;
		case 1:
			woken += (uint32_t)futex_requeue(at, 1, &words[random_below(&rng, 3)], 0,
							 false, 0);
			break;
		case 2:
			/* Counts what it moves, which is no end of a wait. */
			futex_requeue(at, 0, &words[random_below(&rng, 3)], FUTEX_ANY, false, 0);
			break;
		case 3:
			gosched();
			break;
		default:
			woken += (uint32_t)futex_wake(at, (int)random_below(&rng, 4), ALL_BITS,
						      random_below(&rng, 2) ? FUTEX_HANDOFF : 0);
		}
	}
	for (int i = 0; i < FOREIGN; i++)
		pthread_join(threads[i], NULL);
	EXPECT_EQ(results_ok, woken);
	EXPECT_EQ(results_intr, broken);
	EXPECT_EQ(results_ok + results_timeout + results_intr, 300 * (GS + FOREIGN));
	for (int i = 0; i < 3; i++)
		EXPECT_EQ(wake(&words[i], FUTEX_ANY), 0);
	for (int i = 0; i < 4; i++)
		EXPECT_EQ(sched.allp[i]->timers.n, 0);
}

/* The mutex of the paper "Futexes are tricky": 2 is "there may be others". */
static void take(ATOMIC(uint32_t) *at)
{
	if (cas_acq(at, 0, 1))
		return;
	while (xchg_acq(at, 2) != 0)
		futex_wait(at, 2, ALL_BITS, NULL, 0);
}

static void give(ATOMIC(uint32_t) *at)
{
	if (xchg_rel(at, 0) == 2)
		wake(at, 1);
}

static void count_under_mutex(void *arg)
{
	(void)arg;
	for (int i = 0; i < 5000; i++) {
		take(&word);
		plain++;
		give(&word);
		if (getg() && i % 16 == 0)
			gosched();
	}
	group_done(&grp);
}

static void *count_under_mutex_foreign(void *arg)
{
	count_under_mutex(arg);
	return NULL;
}

TEST(a_mutex_made_of_it_excludes_gs_and_foreign_threads)
{
	enum { GS = 8, FOREIGN = 2 };
	pthread_t threads[FOREIGN];

	start(4);
	grp.left = GS + FOREIGN;
	for (int i = 0; i < FOREIGN; i++)
		pthread_create(&threads[i], NULL, count_under_mutex_foreign, NULL);
	for (int i = 0; i < GS; i++)
		go(count_under_mutex, NULL);
	group_wait(&grp);
	for (int i = 0; i < FOREIGN; i++)
		pthread_join(threads[i], NULL);
	EXPECT_EQ(plain, 5000 * (GS + FOREIGN));
	EXPECT_EQ(word, 0);
}
