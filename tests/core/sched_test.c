/* Scheduling as a whole: Gs start, yield, park, are readied and end; work finds every idle
 * P; nobody starves. Most of it without sysmon, which would make up for a forgotten wake-up. */
#include <errno.h>
#include <pthread.h>

#include "host.h"
#include "policies/spec.h"
#include "sched.h"

enum { MS = 1000 * 1000, CPU = 2 /* CLOCK_PROCESS_CPUTIME_ID */ };

static struct group grp;
static ATOMIC(uint32_t) ran;
static ATOMIC(bool) stop;

static void count_up(void *arg)
{
	(void)arg;
	add_rlx(&ran, 1);
	group_done(&grp);
}

/* ---- Gs start, yield and end ---- */

TEST(a_g_runs)
{
	start(1);
	grp.left = 1;
	go(count_up, NULL);
	group_wait(&grp);
	EXPECT_EQ(ld_rlx(&ran), 1);
}

TEST(many_gs_run_on_many_ps)
{
	enum { MANY = 3000 };

	start(8);
	grp.left = MANY;
	for (int i = 0; i < MANY; i++)
		go(count_up, NULL);
	group_wait(&grp);
	EXPECT_EQ(ld_rlx(&ran), MANY);
}

static void yielder(void *arg)
{
	(void)arg;
	for (int i = 0; i < 1000; i++)
		gosched();
	count_up(NULL);
}

TEST(yielding_gs_take_turns)
{
	start(2);
	grp.left = 100;
	for (int i = 0; i < 100; i++)
		go(yielder, NULL);
	group_wait(&grp);
	EXPECT_EQ(ld_rlx(&ran), 100);
}

static void sleeper(void *arg)
{
	uint64_t t = now_ns();
	sleep_ns((uintptr_t)arg);
	EXPECT(now_ns() - t >= (uintptr_t)arg);
	count_up(NULL);
}

TEST(sleepers_wake_when_due)
{
	start(2);
	grp.left = 100;
	for (uintptr_t i = 0; i < 100; i++)
		go(sleeper, (void *)(i * 100000));
	group_wait(&grp);
}

/* Each tries to use up its stack, and lets others do so meanwhile. */
static void use_stack(void *arg)
{
	enum { MOST = SMALL_STACK / 2 };
	volatile char buf[MOST];
	uintptr_t frame = (uintptr_t)__builtin_frame_address(0);
	struct g *gp = getg();

	EXPECT_EQ(frame % 16, 0);
	EXPECT(frame < gp->stack.hi && frame - MOST > gp->stack.lo);
	EXPECT(gp->stack.hi - gp->stack.lo >= SMALL_STACK);
	for (int i = 0; i < MOST; i++)
		buf[i] = (char)((uintptr_t)arg + (uintptr_t)i);
	gosched();
	for (int i = 0; i < MOST; i++)
		EXPECT_EQ(buf[i], (char)((uintptr_t)arg + (uintptr_t)i));
	count_up(NULL);
}

TEST(a_g_begins_on_an_aligned_stack_of_its_own)
{
	start(4);
	grp.left = 500;
	for (uintptr_t i = 0; i < 500; i++)
		go(use_stack, (void *)(i * 17));
	group_wait(&grp);
}

enum { THREADS = 100 };

static __thread uint64_t mine;
static uintptr_t bases[THREADS];
static ATOMIC(uint32_t) begun;

static void use_thread_data(void *arg)
{
	uintptr_t fs = arch_getfs();

	mine = (uintptr_t)arg;
	errno = (int)(uintptr_t)arg;
	bases[(uintptr_t)arg] = fs;
	add_sc(&begun, 1);
	/* All live at the same time, so none has what another had. */
	while (ld_acq(&begun) != THREADS)
		gosched();
	for (int i = 0; i < 20; i++) {
		gosched();
		EXPECT_EQ(mine, (uintptr_t)arg);
		EXPECT_EQ(errno, (int)(uintptr_t)arg);
		EXPECT(arch_getfs() == fs && getg()->fsbase == fs);
	}
	count_up(NULL);
}

TEST(each_g_has_thread_data_of_its_own)
{
	start(4);
	if (!can_preempt()) {
		skipped("here Gs run on their M's FS base");
		return;
	}
	mine = 4711;
	errno = 4711;
	grp.left = THREADS;
	for (uintptr_t i = 0; i < THREADS; i++)
		go(use_thread_data, (void *)i);
	group_wait(&grp);
	EXPECT_EQ(mine, 4711);
	EXPECT_EQ(errno, 4711);
	for (int i = 0; i < THREADS; i++)
		for (int j = 0; j < i; j++)
			EXPECT(bases[i] != bases[j]);
}

/* ---- turns ---- */

enum { ROUND = 5, ROUNDS = 500 };

static int turns[ROUND * ROUNDS], nturns;

static void yield_in_turn(void *arg)
{
	for (int i = 0; i < ROUNDS; i++) {
		turns[nturns++] = (int)(uintptr_t)arg;
		goyield();
	}
	group_done(&grp);
}

TEST(goyield_lets_all_others_of_its_p_go_first)
{
	start_with(1, without_sysmon);
	grp.left = ROUND;
	for (uintptr_t i = 0; i < ROUND; i++)
		go(yield_in_turn, (void *)i);
	group_wait(&grp);
	for (int i = ROUND; i < ROUND * ROUNDS; i++)
		EXPECT_EQ(turns[i], turns[i - ROUND]);
}

static uint32_t had[ROUND];

static void take_fair_turns(void *arg)
{
	uint32_t *own = arg;

	while (*own < ROUNDS) {
		++*own;
		/* Each 61st slice the global queue goes before the local one, so the turns
		 * are not strict; but they are even. */
		for (int i = 0; i < ROUND; i++)
			EXPECT(*own <= had[i] + ROUNDS / 10 + 2);
		gosched();
	}
	group_done(&grp);
}

TEST(gosched_lets_others_have_their_turns)
{
	start_with(1, without_sysmon);
	grp.left = ROUND;
	for (int i = 0; i < ROUND; i++)
		go(take_fair_turns, &had[i]);
	group_wait(&grp);
}

enum { MOST_YIELD = 50 };

static uint32_t among;
static uint64_t work; /* ns, before each yield */
static ATOMIC(uint32_t) moves, strays, nfound;

/* Counts how often it finds itself on another P, others in the global queue, or that it is not its
 * turn. */
static void yield_and_look(void *arg)
{
	static int order[MOST_YIELD * ROUNDS];
	static uint32_t n;
	bool alone = ld_rlx(&sched.gomaxprocs) == 1;

	for (int i = 0; i < ROUNDS; i++) {
		int32_t pid = ld_rlx(&getg()->m->p)->id;
		uint64_t until = work ? now_ns() + work : 0;
		while (until && now_ns() < until)
			arch_relax();
		if (alone) {
			order[n] = (int)(uintptr_t)arg;
			add_rlx(&strays, n >= among && order[n] != order[n - among]);
			n++;
		}
		gosched();
		add_rlx(&moves, ld_rlx(&getg()->m->p)->id != pid);
		add_rlx(&nfound, ld_rlx(&sched.runqsize) > 0);
	}
	group_done(&grp);
}

static void look_at_yields(int procs, uint32_t n, uint64_t ns, void (*how)(struct core_config *))
{
	start_with(procs, how);
	work = ns;
	among = n;
	grp.left = n;
	for (uintptr_t i = 0; i < n; i++)
		go(yield_and_look, (void *)i);
	group_wait(&grp);
}

static bool slices_are_short(void)
{
	if (!can_preempt())
		skipped("the sanitizer's slices are not");
	return can_preempt();
}

TEST(who_yields_all_the_time_stays_with_his_p)
{
	if (!slices_are_short())
		return;
	look_at_yields(2, MOST_YIELD, 0, without_sysmon);
	EXPECT(ld_rlx(&moves) < MOST_YIELD * ROUNDS / 5);
}

TEST(who_yields_all_the_time_is_anybodys_at_times)
{
	if (!slices_are_short())
		return;
	look_at_yields(1, ROUND, 0, without_sysmon);
	EXPECT(ld_rlx(&strays) < ROUND * ROUNDS / 10);
	EXPECT(ld_rlx(&nfound) > 0);
	EXPECT(ld_rlx(&nfound) < ROUND * ROUNDS / 5);
}

TEST(who_works_and_yields_waits_behind_all)
{
	look_at_yields(1, ROUND, 20 * 1000, without_sysmon);
	/* But for each 61st slice. */
	EXPECT(ld_rlx(&strays) <= ROUND * ROUNDS / CHOOSE_GLOBAL_TICK * 2);
	EXPECT(ld_rlx(&nfound) > ROUND * ROUNDS / 3);
}

static void by(const char *text, struct core_config *config)
{
	static struct policyspec wanted;
	const char *wrong;

	EXPECT(policy_parse(text, &wanted, &wrong));
	config->policy = &wanted;
	without_sysmon(config);
}

static void by_gos_yields(struct core_config *config)
{
	by("go,yield=global", config);
}

static void by_fifo(struct core_config *config)
{
	by("fifo", config);
}

/* So many that a share taken at each row's end would always be the same one's. */
TEST(those_who_yield_keep_the_order_of_a_policy)
{
	look_at_yields(1, 18, 0, by_fifo);
	EXPECT_EQ(ld_rlx(&strays), 0);
}

static uint32_t slices;

static void yield_until_stop(void *arg)
{
	(void)arg;
	while (!ld_rlx(&stop)) {
		slices++;
		goyield();
	}
	group_done(&grp);
}

TEST(the_global_queue_is_served_beside_a_full_local_one)
{
	uint32_t most = 0;

	start_with(1, by_gos_yields);
	grp.left = 10;
	for (int i = 0; i < 10; i++)
		go(yield_until_stop, NULL);
	for (int i = 0; i < 1000; i++) {
		uint32_t before = slices;
		gosched();
		if (slices - before > most)
			most = slices - before;
	}
	/* They did not leave it to us either. */
	EXPECT(most > 1);
	EXPECT(most <= CHOOSE_GLOBAL_TICK);
	st_rlx(&stop, true);
	group_wait(&grp);
}

static ATOMIC(uint64_t) hogged, played;

static void work_a_little(void)
{
	for (int i = 0; i < 2000; i++)
		arch_relax();
}

static void hog(void *arg)
{
	(void)arg;
	while (!ld_rlx(&stop)) {
		work_a_little();
		add_rlx(&hogged, 1);
	}
	group_done(&grp);
}

static ATOMIC(uint32_t) ball;

static void play(void *arg)
{
	uint32_t own = (uint32_t)(uintptr_t)arg;

	while (!ld_rlx(&stop)) {
		uint32_t at = ld_acq(&ball);
		if (at % 2 != own) {
			futex_wait(&ball, at, (uint32_t)FUTEX_ANY, NULL, 0);
			continue;
		}
		work_a_little();
		add_rlx(&played, 1);
		st_rel(&ball, at + 1);
		futex_wake(&ball, 1, (uint32_t)FUTEX_ANY, 0);
	}
	add_sc(&ball, 1);
	futex_wake(&ball, FUTEX_ANY, (uint32_t)FUTEX_ANY, 0);
	group_done(&grp);
}

static void play_once(void *arg)
{
	uint32_t left = (uint32_t)(uintptr_t)arg;

	if (left > 0)
		go(play_once, (void *)(uintptr_t)(left - 1));
	else
		group_done(&grp);
}

/* Each is in runnext when the one before it ends, and goes on in its slice. */
TEST(a_chain_through_runnext_is_one_slice)
{
	enum { CHAIN = 500 };
	uint32_t before;

	start_with(1, without_sysmon);
	grp.left = 1;
	before = ld_rlx(&getg()->m->p->schedtick);
	go(play_once, (void *)CHAIN);
	group_wait(&grp);
	EXPECT(ld_rlx(&getg()->m->p->schedtick) - before < CHAIN / 10);
}

/* As Go's TestPingPongHog: a pair that wakes each other through runnext shares one slice. */
TEST(a_pair_that_wakes_each_other_does_not_starve_a_hog)
{
	if (!can_preempt()) {
		skipped("no preemption");
		return;
	}
	start(1);
	grp.left = 3;
	go(hog, NULL);
	go(play, (void *)0);
	go(play, (void *)1);
	/* Of cpu time: what others take may be all of it for a while. */
	for (uint64_t until = os_clock(CPU) + 300 * MS; os_clock(CPU) < until;)
		sleep_ns(50 * MS);
	st_rlx(&stop, true);
	EXPECT(ld_rlx(&hogged) < 20 * ld_rlx(&played));
	EXPECT(ld_rlx(&played) < 20 * ld_rlx(&hogged));
	group_wait(&grp);
}

/* ---- work finds a P ---- */

static void until_idle(int32_t n)
{
	while (ld_sc(&sched.npidle) != n || ld_sc(&sched.nmspinning) != 0)
		os_yield();
}

static ATOMIC(uint32_t) met;

/* Passes when so many are running at the same time. */
static void meet(uint32_t n)
{
	uint32_t until = (add_sc(&met, 1) / n + 1) * n;

	for (int i = 0; ld_sc(&met) < until; i++)
		if (i > 100)
			os_yield();
}

enum { PS = 4 };

static void run_at_once(void *arg)
{
	(void)arg;
	meet(PS);
	group_done(&grp);
}

TEST(work_reaches_every_idle_p)
{
	start_with(PS, without_sysmon);
	for (int round = 0; round < 500; round++) {
		/* From deep sleep, or on the way there. */
		if (round % 2)
			until_idle(PS - 1);
		grp.left = PS - 1;
		for (int i = 0; i < PS - 1; i++)
			go(run_at_once, NULL);
		meet(PS);
		group_wait(&grp);
	}
}

static ATOMIC(uint32_t) gate;

static void wait_at_the_gate(void *arg)
{
	while (!ld_rlx(&stop)) {
		uint32_t v = ld_acq(&gate);
		add_sc(&ran, 1);
		while (ld_acq(&gate) == v)
			futex_wait(&gate, v, (uint32_t)FUTEX_ANY, NULL, 0);
		if (!ld_rlx(&stop))
			run_at_once(arg);
	}
	group_done(&grp);
}

TEST(those_woken_together_reach_every_idle_p)
{
	start_with(PS, without_sysmon);
	for (int i = 0; i < PS - 1; i++)
		go(wait_at_the_gate, NULL);
	for (uint32_t round = 1; round <= 500; round++) {
		while (ld_sc(&ran) != round * (PS - 1))
			gosched();
		if (round % 2)
			until_idle(PS - 1);
		grp.left = PS - 1;
		st_rlx(&stop, round == 500);
		add_sc(&gate, 1);
		futex_wake(&gate, FUTEX_ANY, (uint32_t)FUTEX_ANY, 0);
		if (round < 500)
			meet(PS);
		group_wait(&grp);
	}
}

static void sleep_then_run_at_once(void *arg)
{
	EXPECT_EQ(gosleep(1, *(uint64_t *)arg), 0);
	run_at_once(arg);
}

TEST(sleepers_due_together_reach_every_idle_p)
{
	start_with(PS, without_sysmon);
	for (int round = 0; round < 50; round++) {
		uint64_t at = now_ns() + MS;
		grp.left = PS;
		for (int i = 0; i < PS; i++)
			go(sleep_then_run_at_once, &at);
		group_wait(&grp);
	}
}

static void raise_flag(void *arg)
{
	st_rel((ATOMIC(uint32_t) *)arg, 1);
}

TEST(a_g_in_runnext_is_stolen_from_a_hog)
{
	start_with(2, without_sysmon);
	for (int round = 0; round < 500; round++) {
		ATOMIC(uint32_t) flag = 0;
		if (round % 2)
			until_idle(1);
		go(raise_flag, &flag);
		/* It stands in our runnext, and we never schedule. */
		for (int i = 0; ld_acq(&flag) == 0; i++)
			if (i > 100)
				os_yield();
	}
}

static ATOMIC(uint32_t) first, holding, prepared;
static ATOMIC(bool) open;

static void note_first(void *arg)
{
	cas_sc(&first, 0, (uint32_t)(uintptr_t)arg);
	add_sc(&ran, 1);
}

/* Each has its P for itself before there is anything to steal. */
static void hold_p(uint32_t n)
{
	add_sc(&holding, 1);
	while (ld_acq(&holding) != n)
		os_yield();
}

static void hold_until_open(void *arg)
{
	hold_p((uint32_t)(uintptr_t)arg);
	while (!ld_acq(&open))
		os_yield();
	group_done(&grp);
}

static void hold_two(void *arg)
{
	hold_p((uint32_t)(uintptr_t)arg);
	go(note_first, (void *)1);
	go(note_first, (void *)2);
	st_rel(&prepared, 1);
	while (ld_acq(&ran) != 3)
		os_yield();
	group_done(&grp);
}

/* One P has two, in its ring and in runnext, another one in runnext: a third takes first what is in
 * the ring, whomever it visits first. */
TEST(a_thief_leaves_runnext_while_there_is_anything_else)
{
	start_with(3, without_sysmon);
	for (int round = 0; round < 50; round++) {
		st_rlx(&first, 0);
		st_rlx(&ran, 0);
		st_rlx(&open, false);
		st_rlx(&holding, 0);
		st_rlx(&prepared, 0);
		grp.left = 2;
		go(hold_two, (void *)3);
		go(hold_until_open, (void *)3);
		hold_p(3);
		while (!ld_acq(&prepared))
			os_yield();
		go(note_first, (void *)3);
		st_rel(&open, true);
		while (ld_acq(&ran) != 3)
			os_yield();
		EXPECT_EQ(ld_rlx(&first), 1);
		group_wait(&grp);
	}
}

/* One is left with a P and nothing to do while others search and something stands in our runnext.
 */
static void with_searchers(uint32_t needed)
{
	enum { OTHERS = 100 };

	start_with(2, without_sysmon);
	grp.left = 1;
	go(hold_until_open, (void *)2);
	hold_p(2);
	while (ld_sc(&sched.nmspinning) != 0)
		os_yield();
	add_sc(&sched.nmspinning, OTHERS);
	st_sc(&sched.needspinning, needed);
	go(note_first, (void *)1);
	st_rel(&open, true);
	while (ld_sc(&sched.npidle) != 1)
		os_yield();
	add_sc(&sched.nmspinning, -OTHERS);
}

TEST(who_would_be_one_too_many_does_not_search)
{
	with_searchers(0);
	EXPECT_EQ(ld_rlx(&ran), 0);
	group_wait(&grp);
	while (ld_acq(&ran) != 1)
		gosched();
}

/* Somebody had work for one when all Ps were taken. */
TEST(who_was_missed_searches)
{
	with_searchers(1);
	EXPECT_EQ(ld_rlx(&ran), 1);
	group_wait(&grp);
}

/* ---- park and ready ---- */

static bool refuse(struct g *gp, void *arg)
{
	EXPECT_EQ(ld_acq(&gp->status), GWAITING);
	EXPECT(getg() != gp);
	++*(int *)arg;
	return false;
}

TEST(a_refused_park_goes_on)
{
	int refused = 0;

	start_with(1, without_sysmon);
	/* With nobody else to run, by way of g0; then from G to G. */
	for (int i = 0; i < 1000; i++)
		gopark(refuse, &refused, WAIT_PARK);
	EXPECT_EQ(refused, 1000);
	grp.left = 3;
	for (int i = 0; i < 3; i++)
		go(yield_until_stop, NULL);
	for (int i = 0; i < 1000; i++)
		gopark(refuse, &refused, WAIT_PARK);
	EXPECT_EQ(refused, 2000);
	st_rlx(&stop, true);
	group_wait(&grp);
}

/* A G that parks puts itself into the box; who takes it out readies it at once. */
static ATOMIC(struct g *) box;

static bool into_box(struct g *gp, void *arg)
{
	(void)arg;
	EXPECT(cas_acqrel(&box, NULL, gp));
	return true;
}

static uint64_t posts; /* plain: what the waker wrote is seen by the woken, and back */

static void ready_from_box(uint32_t times)
{
	for (uint32_t i = 0; i < times; i++) {
		struct g *gp;
		while ((gp = ld_acq(&box)) == NULL) {
			if (getg())
				gosched();
			else
				os_yield();
		}
		st_rlx(&box, NULL);
		EXPECT_EQ(posts, 2 * i);
		posts++;
		goready(gp);
	}
}

static void park_in_box(uint32_t times)
{
	for (uint32_t i = 0; i < times; i++) {
		gopark(into_box, NULL, WAIT_PARK);
		EXPECT_EQ(posts, 2 * i + 1);
		posts++;
	}
}

enum { POSTS = 20000 };

static void ready_posts(void *arg)
{
	(void)arg;
	ready_from_box(POSTS);
	group_done(&grp);
}

TEST(a_g_may_be_readied_as_soon_as_it_is_parked)
{
	start_with(4, without_sysmon);
	grp.left = 1;
	go(ready_posts, NULL);
	park_in_box(POSTS);
	group_wait(&grp);
}

static void *ready_posts_foreign(void *arg)
{
	(void)arg;
	EXPECT(getg() == NULL);
	ready_from_box(POSTS / 4);
	EXPECT(getg() == NULL);
	return NULL;
}

TEST(a_foreign_thread_readies_gs)
{
	pthread_t thread;

	start_with(2, without_sysmon);
	pthread_create(&thread, NULL, ready_posts_foreign, NULL);
	/* Each time the whole process is asleep, but for that thread. */
	park_in_box(POSTS / 4);
	pthread_join(thread, NULL);
}

/* The local queue is never empty, and nobody looks at the other but in a slice of its own. */
TEST(who_is_readied_from_without_runs_beside_a_full_local_queue)
{
	pthread_t thread;

	start_with(1, without_sysmon);
	grp.left = 10;
	for (int i = 0; i < 10; i++)
		go(yield_until_stop, NULL);
	pthread_create(&thread, NULL, ready_posts_foreign, NULL);
	park_in_box(POSTS / 4);
	pthread_join(thread, NULL);
	st_rlx(&stop, true);
	group_wait(&grp);
}

static void *start_gs_foreign(void *arg)
{
	(void)arg;
	for (uint32_t i = 0; i < 2000; i++) {
		EXPECT_EQ(newproc(count_up, NULL, SMALL_STACK, NULL), 0);
		EXPECT(getg() == NULL);
		/* One by one, then as fast as they come. */
		while (i < 1000 && ld_rlx(&ran) <= i)
			os_yield();
	}
	return NULL;
}

TEST(a_foreign_thread_starts_gs)
{
	pthread_t thread;

	start_with(2, without_sysmon);
	grp.left = 2000;
	pthread_create(&thread, NULL, start_gs_foreign, NULL);
	group_wait(&grp);
	EXPECT_EQ(ld_rlx(&ran), 2000);
	pthread_join(thread, NULL);
}
