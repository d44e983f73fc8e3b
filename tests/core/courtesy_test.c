/* Whoever wakes one that hardly ever runs gives way to it, but not at every wake. */
#include "host.h"

#include "gmp.h"

enum { ROUNDS = 20, LOOKS = 10, WAKES = 2000, COURTESIES = 4 };

static struct group grp;
static ATOMIC(uint32_t) asked, answered;
static uint32_t at_once;

/* Runs for a moment each time. */
static void answers(void *arg)
{
	(void)arg;
	for (uint32_t n = 0; ld_acq(&asked) != UINT32_MAX;) {
		if (ld_acq(&asked) == n) {
			futex_wait(&asked, n, (uint32_t)FUTEX_ANY, NULL, 0);
			continue;
		}
		n = ld_acq(&asked);
		st_rel(&answered, n);
	}
	group_done(&grp);
}

static void ask(void)
{
	uint32_t n = add_rlx(&asked, 1) + 1;

	futex_wake(&asked, 1, (uint32_t)FUTEX_ANY, 0);
	at_once += ld_acq(&answered) == n;
}

static void ask_no_more(void)
{
	st_rel(&asked, UINT32_MAX);
	futex_wake(&asked, 1, (uint32_t)FUTEX_ANY, 0);
	group_done(&grp);
}

/* Until sysmon has looked so often more. */
static void compute_for(uint64_t looks)
{
	uint64_t from = ld_rlx(&sched.looks);

	while (ld_rlx(&sched.looks) - from < looks)
		burn_ns(1000);
}

static void asks_now_and_then(void *arg)
{
	(void)arg;
	goyield();
	for (int i = 0; i < ROUNDS; i++) {
		compute_for(LOOKS);
		ask();
		/* If it was not so. */
		while (ld_acq(&answered) != ld_rlx(&asked))
			goyield();
	}
	ask_no_more();
}

static void play(void (*fn)(void *))
{
	start(1);
	grp.left = 2;
	go(answers, NULL);
	go(fn, NULL);
	group_wait(&grp);
}

/* But where its own slice was over just then. */
TEST(who_hardly_ever_runs_goes_before_whom_wakes_it)
{
	play(asks_now_and_then);
	test_say("  %u of %d", at_once, ROUNDS);
	EXPECT(at_once >= ROUNDS / 2);
}

static uint64_t looks;

static void asks_all_the_time(void *arg)
{
	(void)arg;
	goyield();
	compute_for(LOOKS);
	looks = ld_rlx(&sched.looks);
	for (int i = 0; i < WAKES; i++) {
		ask();
		while (ld_acq(&answered) != ld_rlx(&asked))
			goyield();
	}
	looks = ld_rlx(&sched.looks) - looks;
	ask_no_more();
}

TEST(a_waker_gives_way_four_times_a_look_at_most)
{
	play(asks_all_the_time);
	test_say("  %u of %d, %lu looks", at_once, WAKES, (unsigned long)looks);
	/* A look may allow it between two looks of ours, and twice. */
	EXPECT(at_once > 0 && at_once <= 2 * COURTESIES * (looks + 2));
}
