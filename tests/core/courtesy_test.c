/* Whoever wakes one that hardly ever runs gives way to it, but not at every wake. */
#include "host.h"

#include "gmp.h"
#include "os.h"
#include "sched.h"

enum {
	ROUNDS = 20,
	LOOKS = 10,
	WAKES = 2000,
	SLEEPERS = 8,
	LEAST = 4,
	COURTESY_NS = 16 * 1000,
	SLICE_NS = 10 * 1000 * 1000,
};

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

/* As sysmon would have it, who wakes at that moment. */
static void end_slice(void)
{
	struct m *mp = pin(getg());

	st_rlx(&mp->preempttick, ld_rlx(&mp->p->schedtick) + 1);
	unpin(getg());
}

static void asks_as_its_slice_ends(void *arg)
{
	compute_for(LOOKS);
	end_slice();
	ask();
	while (ld_acq(&answered) != ld_rlx(&asked))
		goyield();
	at_once = 0;
	asks_now_and_then(arg);
}

TEST(so_does_one_whose_slice_was_over_as_it_woke_another)
{
	play(asks_as_its_slice_ends);
	test_say("  %u of %d", at_once, ROUNDS);
	EXPECT(at_once >= ROUNDS / 2);
}

static uint64_t looks, took;

static void asks_all_the_time(void *arg)
{
	(void)arg;
	goyield();
	compute_for(LOOKS);
	looks = ld_rlx(&sched.looks);
	took = nanotime();
	for (int i = 0; i < WAKES; i++) {
		ask();
		while (ld_acq(&answered) != ld_rlx(&asked))
			goyield();
	}
	looks = ld_rlx(&sched.looks) - looks;
	took = nanotime() - took;
	ask_no_more();
}

TEST(a_waker_gives_way_once_in_16_us_at_most)
{
	play(asks_all_the_time);
	test_say("  %u of %d, %lu looks", at_once, WAKES, (unsigned long)looks);
	/* A look may allow it between two looks of ours, and twice; for the time before it. */
	EXPECT(at_once > 0 &&
	       at_once <= 2 * (LEAST * (looks + 2) + (took + 2 * SLICE_NS) / COURTESY_NS));
}

/* ---- who is woken beside others ---- */

static ATOMIC(uint32_t) came;

/* Hardly ever runs. */
static void comes_when_called(void *arg)
{
	(void)arg;
	for (uint32_t n = 0; n < ROUNDS; n++) {
		while (ld_acq(&asked) == n)
			futex_wait(&asked, n, (uint32_t)FUTEX_ANY, NULL, 0);
		add_sc(&came, 1);
	}
	group_done(&grp);
}

static uint32_t soon;

/* Each time in a slice of its own that has just begun; never waits. */
static void calls_all(void *arg)
{
	uint64_t t0;

	(void)arg;
	goyield();
	compute_for(LOOKS);
	for (uint32_t i = 1; i <= ROUNDS; i++) {
		goyield();
		t0 = nanotime();
		st_rel(&asked, i);
		futex_wake(&asked, SLEEPERS, (uint32_t)FUTEX_ANY, 0);
		while (ld_acq(&came) < i * SLEEPERS && nanotime() - t0 < 2 * SLICE_NS)
			burn_ns(1000);
		soon += nanotime() - t0 < SLICE_NS * 2 / 3;
		while (ld_acq(&came) < i * SLEEPERS)
			goyield();
	}
	group_done(&grp);
}

TEST(a_slice_is_short_beside_those_who_hardly_ever_run)
{
	if (!can_preempt()) {
		skipped("this build cannot stop a G by signal");
		return;
	}
	start(1);
	grp.left = SLEEPERS + 1;
	for (int i = 0; i < SLEEPERS; i++)
		go(comes_when_called, NULL);
	go(calls_all, NULL);
	group_wait(&grp);
	test_say("  %u of %d", soon, ROUNDS);
	/* Beside other processes some are seen; without, none is soon. */
	EXPECT(soon > 0);
}
