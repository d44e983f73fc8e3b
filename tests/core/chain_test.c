/* Chains through runnext beside others: neither waits for the other's end. */
#include "host.h"

#include "cpu.h"
#include "gmp.h"
#include "os.h"

enum { ROUNDS = 50, PAIRS = 4, MS = 1000 * 1000 };

static struct group grp;
static ATOMIC(uint32_t) stop, balls[PAIRS];
static ATOMIC(uint64_t) throws;

/* Two that wake each other, each with nothing else to do. */
static void throw(void *arg)
{
	uint32_t own = (uint32_t)(uintptr_t)arg % 2;
	ATOMIC(uint32_t) *ball = &balls[(uintptr_t)arg / 2];

	while (!ld_rlx(&stop)) {
		uint32_t at = ld_acq(ball);
		if (at % 2 != own) {
			futex_wait(ball, at, (uint32_t)FUTEX_ANY, NULL, 0);
			continue;
		}
		add_rlx(&throws, 1);
		st_rel(ball, at + 1);
		futex_wake(ball, 1, (uint32_t)FUTEX_ANY, 0);
	}
	add_sc(ball, 1);
	futex_wake(ball, FUTEX_ANY, (uint32_t)FUTEX_ANY, 0);
	group_done(&grp);
}

static void play(uint32_t pairs, void (*fn)(void *))
{
	grp.left = 2 * pairs + 1;
	for (uintptr_t i = 0; i < 2 * pairs; i++)
		go(throw, (void *)i);
	go(fn, NULL);
	group_wait(&grp);
}

static ATOMIC(uint32_t) long_ones;

static void looks_in(void *arg)
{
	enum { LONG = 10000 };

	(void)arg;
	for (int i = 0; i < ROUNDS; i++) {
		uint64_t before = ld_rlx(&throws);
		goyield();
		add_rlx(&long_ones, i > 0 && ld_rlx(&throws) - before > LONG);
	}
	st_rlx(&stop, true);
	group_done(&grp);
}

/* Without sysmon nobody ends their slice: it would last for ever. */
TEST(a_chain_gives_way_to_who_runs_for_a_moment)
{
	start_with(1, without_sysmon);
	play(1, looks_in);
	EXPECT(ld_rlx(&throws) > 0);
	/* Who was kept from the cpu in his turn did have it for long, and so may the chain. */
	EXPECT(ld_rlx(&long_ones) < ROUNDS / 5);
}

/* In the global queue. */
static void stands_behind(void *arg)
{
	(void)arg;
	for (int i = 0; i < ROUNDS; i++)
		gosched();
	st_rlx(&stop, true);
	group_done(&grp);
}

TEST(a_chain_gives_way_to_the_global_queue)
{
	start_with(1, without_sysmon);
	play(1, stands_behind);
	EXPECT(ld_rlx(&throws) > 0);
}

static ATOMIC(uint32_t) ticks;

/* How many slices begin before its turn comes? */
static void counts_slices(void *arg)
{
	struct p *pp = sched.allp[0];

	(void)arg;
	for (int i = 0; i < ROUNDS; i++) {
		uint32_t before = ld_rlx(&pp->schedtick);
		gosched();
		if (i > 0 && ld_rlx(&pp->schedtick) - before > ld_rlx(&ticks))
			st_rlx(&ticks, ld_rlx(&pp->schedtick) - before);
	}
	st_rlx(&stop, true);
	group_done(&grp);
}

/* Each has another in its P's own queue to give way to, too. */
TEST(many_chains_give_way_to_the_global_queue)
{
	start_with(1, without_sysmon);
	play(PAIRS, counts_slices);
	test_say("  a turn comes after %u slices", ld_rlx(&ticks));
	/* Chains did run, and end, between its turns. */
	EXPECT(ld_rlx(&throws) > ROUNDS && ld_rlx(&ticks) > 2);
	EXPECT(ld_rlx(&ticks) < 30);
}

static ATOMIC(uint64_t) worked, waited;

static void works(void *arg)
{
	(void)arg;
	for (int i = 0; i < ROUNDS; i++) {
		uint64_t began = now_ns(), left;
		burn_ns(2 * MS);
		left = now_ns();
		goyield();
		if (i == 0)
			continue;
		add_rlx(&worked, left - began);
		add_rlx(&waited, now_ns() - left);
	}
	st_rlx(&stop, true);
	group_done(&grp);
}

TEST(a_chain_lasts_as_long_as_the_others_did)
{
	start_with(1, without_sysmon);
	play(1, works);
	EXPECT(ld_rlx(&waited) > ld_rlx(&worked) / 2);
}
