/* Gs that spin give way soon, and only they. */
#include <sys/resource.h>

#include "host.h"
#include "preempt.h"
#include "raw.h"
#include "sched.h"

static struct group grp;
static ATOMIC(uint32_t) stop, turn;
static ATOMIC(uint64_t) turns, result;

static bool no_signal(void)
{
	if (!can_preempt())
		skipped("this build cannot stop a G by signal");
	return !can_preempt();
}

static uint64_t spins(void)
{
	struct stats sum;

	stats_sum(&sum);
	return sum.spins;
}

/* Waits until spinners have given way that often. False where others have the cpu for long: who
 * gets it in bursts is not recognised. */
static bool await_spins(uint64_t n)
{
	uint64_t since = nanotime(), cpu = cpu_ns();

	while (spins() < n) {
		uint64_t waited = nanotime() - since;
		if (waited / MS > 20000 && cpu_ns() - cpu < waited / 2) {
			skipped("other processes have the cpu");
			return false;
		}
		sleep_ns(200 * MS);
	}
	return true;
}

/* ---- a token goes round among more Gs than Ps ---- */
enum { RING = 6 };

static void ring_member(void *arg)
{
	uint32_t me = (uint32_t)(uintptr_t)arg;

	while (!ld_rlx(&stop)) {
		while (ld_acq(&turn) != me && !ld_rlx(&stop))
			;
		add_rlx(&turns, 1);
		st_rel(&turn, (me + 1) % RING);
	}
	group_done(&grp);
}

/* How long a turn is at best, on the average of some. */
static uint64_t shortest_turn(void)
{
	uint64_t best = UINT64_MAX;

	for (int i = 0; i < 50; i++) {
		uint64_t since = nanotime(), n = spins(), took;
		sleep_ns(20 * MS);
		took = nanotime() - since;
		n = spins() - n;
		if (n > 0 && took / n < best)
			best = took / n;
	}
	return best;
}

static void ring(int procs)
{
	uint64_t turn_ns;

	start(procs);
	grp.left = RING;
	for (uintptr_t i = 0; i < RING; i++)
		go(ring_member, (void *)i);
	/* A second at least. Each time it is after a short turn. */
	turn_ns = shortest_turn();
	bool seen = await_spins(100);
	uint64_t n = ld_rlx(&turns);
	st_rlx(&stop, 1);
	group_wait(&grp);
	test_say("  %lld Ps: %llu turns, %llu gave way, at best after %llu us", (long long)procs,
		 (unsigned long long)n, (unsigned long long)spins(),
		 (unsigned long long)turn_ns / 1000);
	/* On two Ps, whoever has the token may be on a kernel thread that has no cpu: then they
	 * give way, and nobody has a turn. */
	EXPECT(!seen || (procs > 1 ? n > 0 : n > spins() / 8));
	/* With what it costs to stop one and to go on with another, which is as much again or twice
	 * as much on some machines; a whole slice is a hundred times as long. */
	EXPECT(!seen || procs > 1 || turn_ns < 10 * CHOOSE_SPIN_NS);
}

TEST(those_who_wait_for_each_other_by_spinning_take_short_turns_on_one_p)
{
	if (!no_signal())
		ring(1);
}

TEST(those_who_wait_for_each_other_by_spinning_take_short_turns_on_two_ps)
{
	if (!no_signal())
		ring(2);
}

/* ---- two that work for a while, then spin until the other is through ---- */
static ATOMIC(uint64_t) sink;

static void pair_member(void *arg)
{
	uint32_t me = (uint32_t)(uintptr_t)arg;
	uint64_t sum = 0;

	while (!ld_rlx(&stop)) {
		uint64_t since = nanotime();
		while (nanotime() - since < 300 * US)
			sum = sum * 31 + 7;
		add_rlx(&turns, 1);
		st_rel(&turn, me ^ 1);
		while (ld_acq(&turn) != me && !ld_rlx(&stop))
			;
	}
	add_rlx(&sink, sum);
	group_done(&grp);
}

TEST(one_that_works_before_it_spins_gives_way_soon_after)
{
	uint64_t cpu, n;
	bool seen;

	if (no_signal())
		return;
	start(1);
	grp.left = 2;
	go(pair_member, (void *)0);
	go(pair_member, (void *)1);
	seen = await_spins(20);
	cpu = cpu_ns();
	n = ld_rlx(&turns);
	sleep_ns(1000 * MS);
	cpu = cpu_ns() - cpu;
	n = ld_rlx(&turns) - n;
	st_rlx(&stop, 1);
	group_wait(&grp);
	test_say("  %llu turns in %llu ms of cpu", (unsigned long long)n,
		 (unsigned long long)(cpu / MS));
	/* Not only when the slice, of 10 ms, is over. */
	EXPECT(!seen || n * 3 * MS > cpu);
}

/* ---- loops that compute ---- */
static void sum_memory(void)
{
	static uint32_t table[4096];
	uint64_t sum = 0;

	for (uint32_t i = 0; i < 4096; i++)
		table[i] = i * 2654435761u;
	while (!ld_rlx(&stop))
		for (uint32_t i = 0; i < 4096; i++)
			sum = sum * 31 + table[(sum + i) % 4096];
	add_rlx(&result, sum);
}

static void iterate(void)
{
	compute_until(&stop);
}

static void count_primes(void)
{
	uint64_t found = 0;

	for (uint64_t n = 3; !ld_rlx(&stop); n += 2) {
		uint64_t d = 3;
		while (d * d <= n && n % d != 0)
			d += 2;
		found += d * d > n;
	}
	add_rlx(&result, found);
}

static void walk_numbers(void)
{
	double x = 1;

	while (!ld_rlx(&stop))
		for (int i = 1; i < 1000; i++)
			x = x / 3 + i;
	add_rlx(&result, (uint64_t)x);
}

/* In the registers of the x87, beside a counter. */
static void walk_long_numbers(void)
{
	long double x = 1;

	for (uint64_t i = 1; !ld_rlx(&stop); i++)
		x = x / 3 + (long double)(int64_t)i;
	add_rlx(&result, (uint64_t)x);
}

static void compute_one(void *arg)
{
	static void (*const loops[])(void) = { sum_memory, count_primes, walk_numbers,
					       walk_long_numbers, iterate };

	loops[(uintptr_t)arg % 5]();
	group_done(&grp);
}

TEST(loops_that_compute_keep_their_slices)
{
	if (no_signal())
		return;
	start(2);
	grp.left = 10;
	for (uintptr_t i = 0; i < 10; i++)
		go(compute_one, (void *)i);
	sleep_ns(1000 * MS);
	st_rlx(&stop, 1);
	group_wait(&grp);
	test_say("  %llu gave way as spinning", (unsigned long long)spins());
	/* Looks may find a loop alike by chance; one that spins gives way each millisecond. */
	EXPECT(spins() <= 2 + cpu_ns() / MS / 100);
}

/* ---- a library that spins: its threads look as if they computed ---- */
extern const char __start_library[], __stop_library[];

static __attribute__((section("library"), noipa)) void spin_in_library(void)
{
	uint64_t a = 1, b = 2, c = 3;

	while (!ld_rlx(&stop)) {
		a = a * 6364136223846793005u + b;
		b = (b ^ a) * 31 + c;
		c += b >> 7;
	}
	add_rlx(&result, a + b + c);
}

static void library_member(void *arg)
{
	(void)arg;
	spin_in_library();
	group_done(&grp);
}

TEST(whoever_is_found_in_a_library_that_spins_gives_way_soon)
{
	uint64_t turn_ns;

	if (no_signal())
		return;
	start(1);
	spin_library((uintptr_t)__start_library, (uintptr_t)__stop_library);
	EXPECT(core_endsspins());
	grp.left = 2;
	go(library_member, NULL);
	go(library_member, NULL);
	turn_ns = shortest_turn();
	bool seen = await_spins(100);
	st_rlx(&stop, 1);
	group_wait(&grp);
	test_say("  at best after %llu us", (unsigned long long)(turn_ns / 1000));
	/* A slice is 10 ms. */
	EXPECT(!seen || turn_ns < 2 * MS);
}

/* ---- one that spun, and works now ---- */
static void compute_till_stopped(void *arg)
{
	(void)arg;
	iterate();
	group_done(&grp);
}

/* Sleeps of kernel threads: only sysmon's are many. */
TEST(to_be_looked_at_costs_those_who_compute_few_wakes_of_sysmon)
{
	enum { GS = 16, WAKES_A_MS = 3 };
	struct rusage before, after;
	uint64_t since;

	if (no_signal())
		return;
	start(2);
	since = nanotime();
	getrusage(RUSAGE_SELF, &before);
	grp.left = GS;
	for (int i = 0; i < GS; i++)
		go(compute_till_stopped, NULL);
	sleep_ns(250 * MS);
	st_rlx(&stop, 1);
	group_wait(&grp);
	getrusage(RUSAGE_SELF, &after);
	since = nanotime() - since;
	test_say("  %ld sleeps in %llu ms", after.ru_nvcsw - before.ru_nvcsw,
		 (unsigned long long)(since / MS));
	EXPECT(after.ru_nvcsw - before.ru_nvcsw < (long)(WAKES_A_MS * since / MS));
}

static ATOMIC(uint32_t) go_on, has_left;

static void spin_then_work(void *arg)
{
	(void)arg;
	while (!ld_rlx(&go_on))
		;
	st_rlx(&has_left, 1);
	count_primes();
	group_done(&grp);
}

/* The same few instructions, but of registers that stand still until then. */
static void spin_then_work_there(void *arg)
{
	uint64_t x = 0, y = 0, z = 0;

	(void)arg;
	st_rlx(&has_left, 1);
	while (!ld_rlx(&stop)) {
		uint64_t on = ld_rlx(&go_on);
		x += on;
		y += x * on;
		z ^= y * on;
	}
	add_rlx(&result, x + y + z);
	group_done(&grp);
}

static void forgotten(void (*fn)(void *))
{
	uint64_t before;
	bool seen;

	if (no_signal())
		return;
	start(1);
	grp.left = 2;
	go(fn, NULL);
	go(compute_one, (void *)1);
	seen = await_spins(1);
	st_rlx(&go_on, 1);
	while (!ld_rlx(&has_left))
		sleep_ns(1 * MS);
	/* That is known once it has been seen a few times. */
	do {
		before = spins();
		sleep_ns(500 * MS);
	} while (seen && spins() != before);
	st_rlx(&stop, 1);
	group_wait(&grp);
}

TEST(one_that_spun_and_computes_now_keeps_its_slices)
{
	forgotten(spin_then_work);
}

TEST(one_that_spun_and_computes_now_in_the_same_place_keeps_its_slices)
{
	forgotten(spin_then_work_there);
}

TEST(who_spins_while_nobody_waits_is_left_alone)
{
	if (no_signal())
		return;
	start(2);
	grp.left = 1;
	go(spin_then_work, NULL);
	sleep_ns(200 * MS);
	EXPECT_EQ(spins(), 0);
	st_rlx(&stop, 1);
	st_rlx(&go_on, 1);
	group_wait(&grp);
}

/* ---- one that is taken for spinning, and is not ---- */
static ATOMIC(uint64_t) walked;

/* In a library's text, for a test that says so. */
static __attribute__((section("library"), noipa)) void walk_list(void *arg)
{
	static void *ring[64];
	void **at = ring;

	(void)arg;
	for (int i = 0; i < 64; i++)
		ring[i] = &ring[(i + 1) % 64];
	while (!ld_rlx(&stop)) {
		for (int i = 0; i < 100000; i++) {
			at = *at;
			__asm__ volatile("" : "+r"(at));
		}
		add_rlx(&walked, 1);
	}
	group_done(&grp);
}

/* Looks by calls, and now and then has something else to do. */
static void look_about(void *arg)
{
	(void)arg;
	while (!ld_rlx(&stop)) {
		for (int i = 0; i < 300; i++) {
			compute(100);
			core_looked(true);
		}
		compute(30000);
		add_rlx(&walked, 1);
	}
	group_done(&grp);
}

static void share(bool library, void (*fn)(void *))
{
	uint64_t alone, alone_us, both, both_us;

	if (no_signal())
		return;
	start(1);
	if (library)
		spin_library((uintptr_t)__start_library, (uintptr_t)__stop_library);
	grp.left = 2;
	go(fn, NULL);
	sleep_ns(200 * MS);
	alone = ld_rlx(&walked);
	alone_us = cpu_ns() / US;
	go(compute_one, (void *)1);
	sleep_ns(1000 * MS);
	both = ld_rlx(&walked) - alone;
	both_us = cpu_ns() / US - alone_us;
	test_say("  %llu rounds in %llu us of cpu alone, %llu in %llu us beside one",
		 (unsigned long long)alone, (unsigned long long)alone_us, (unsigned long long)both,
		 (unsigned long long)both_us);
	/* A fair share would be half of them. */
	EXPECT(both * alone_us * 10 > alone * both_us);
	st_rlx(&stop, 1);
	group_wait(&grp);
}

TEST(one_that_is_taken_for_spinning_gets_a_share_beside_one_that_computes)
{
	share(false, walk_list);
}

TEST(one_that_computes_in_a_library_that_spins_gets_a_share_too)
{
	share(true, walk_list);
}

TEST(one_that_looks_by_calls_gets_a_share_too)
{
	share(false, look_about);
}

/* ---- one that sleeps between its looks ---- */
enum { ROUNDS = 2000 };

static ATOMIC(uint32_t) hand;

static void hands_on(uint32_t me, uint32_t rounds)
{
	for (uint32_t i = 0; i < rounds; i++) {
		while (ld_acq(&hand) % 2 != me)
			futex_wait(&hand, 1 - me + 2 * i, (uint32_t)FUTEX_ANY, NULL, 0);
		add_sc(&hand, 1);
		futex_wake(&hand, 1, (uint32_t)FUTEX_ANY, 0);
		if (me == 0)
			core_looked(true);
	}
	group_done(&grp);
}

static void hand_and_look(void *arg)
{
	hands_on((uint32_t)(uintptr_t)arg, ROUNDS);
}

TEST(who_sleeps_between_his_looks_does_not_spin)
{
	struct stats sum;

	start(1);
	grp.left = 2;
	go(hand_and_look, (void *)0);
	go(hand_and_look, (void *)1);
	group_wait(&grp);
	stats_sum(&sum);
	EXPECT_EQ(sum.yields, 0);
}
