/* What is said of a scheduler's life: times by buckets, parks by reason, the most at once. */
#include "summary.h"

#include "host.h"
#include "sched.h"

enum { GS = 40, MS = 1000 * 1000 };

static struct group grp;
static ATOMIC(uint32_t) gate;

TEST(each_time_is_in_the_bucket_that_ends_with_it_or_beyond)
{
	uint64_t ns = 0;

	for (int i = 0; i < 4000; i++) {
		uint32_t at = times_bucket(ns);
		EXPECT(at < TIMES_BUCKETS);
		EXPECT(times_upto(at) >= ns || at == TIMES_BUCKETS - 1);
		EXPECT(at == 0 || times_upto(at - 1) < ns);
		ns += 1 + ns / 100;
		if (at == TIMES_BUCKETS - 1)
			return;
	}
	EXPECT_EQ(times_bucket(UINT64_MAX), TIMES_BUCKETS - 1);
}

static void keep_times(struct core_config *config)
{
	config->times = true;
}

static bool kept(void (*fn)(struct core_config *), int procs)
{
	start_with(procs, fn);
	if (!ld_rlx(&sched.peakgs))
		skipped("no times in this build");
	return ld_rlx(&sched.peakgs) != 0;
}

static void waits_and_sleeps(void *arg)
{
	(void)arg;
	while (!ld_sc(&gate))
		futex_wait(&gate, 0, (uint32_t)FUTEX_ANY, NULL, 0);
	sleep_ns(MS);
	group_done(&grp);
}

TEST(parks_have_reasons_and_the_most_at_once_is_known)
{
	struct summary s;
	uint64_t sum = 0;

	if (!kept(keep_times, 2))
		return;
	for (int round = 0; round < 3; round++) {
		grp.left = GS;
		st_sc(&gate, 0);
		for (int i = 0; i < GS; i++)
			until_waiting(go(waits_and_sleeps, NULL));
		st_sc(&gate, 1);
		futex_wake(&gate, FUTEX_ANY, (uint32_t)FUTEX_ANY, 0);
		group_wait(&grp);
	}
	summary_read(&s);
	EXPECT(s.peakgs >= GS + 1 && s.peakgs < 2 * GS);
	EXPECT(s.parks[WAIT_FUTEX] >= 3 * GS);
	/* One whose time is over before it lies down does not park. */
	EXPECT(s.parks[WAIT_SLEEP] > 2 * GS);
	for (uint32_t i = 0; i < TIMES_REASONS; i++)
		sum += s.parks[i];
	EXPECT(sum <= s.stats.parks + 2 && sum + 2 >= s.stats.parks);
	EXPECT_EQ(s.procs, 2);
	EXPECT(s.kthreads >= 3);
	EXPECT(s.lived >= 3 * MS);
}

static void burns(void *arg)
{
	(void)arg;
	while (!ld_sc(&gate))
		futex_wait(&gate, 0, (uint32_t)FUTEX_ANY, NULL, 0);
	burn_ns(2 * MS);
	group_done(&grp);
}

/* Ten, made ready all at once: one after the other would take some of the time. */
static void burn_all(void)
{
	for (int i = 0; i < 10; i++)
		until_waiting(go(burns, NULL));
	st_sc(&gate, 1);
	futex_wake(&gate, FUTEX_ANY, (uint32_t)FUTEX_ANY, 0);
	group_wait(&grp);
}

TEST(who_waits_behind_others_is_seen_to)
{
	struct summary s;

	if (!kept(keep_times, 1))
		return;
	grp.left = 10;
	burn_all();
	summary_read(&s);
	/* The last ran after nine of 2 ms; and each was runnable before, when it was made. */
	EXPECT(s.waited >= 20);
	EXPECT(s.longest >= 15 * (uint64_t)MS);
	EXPECT(s.p50 <= s.p99);
	EXPECT(s.p99 <= s.longest);
}

TEST(nothing_is_kept_unless_asked_for)
{
	struct summary s;

	start(2);
	grp.left = 10;
	burn_all();
	summary_read(&s);
	EXPECT_EQ(s.waited, 0);
	EXPECT_EQ(s.peakgs, 0);
	EXPECT_EQ(s.parks[WAIT_FUTEX], 0);
	EXPECT(s.stats.created >= 11);
}
