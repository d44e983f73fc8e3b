/* Storms: many Gs that do one thing, or all things, in random order for a while, on 1, 2, 8
 * and 64 Ps. Everything is counted, and when all have ended nothing may be left: no G, no
 * spinner, no timer, no P away from home. Next: storms.h, what they do.
 *
 * A storm lasts half a second, or $HEDDLE_STRESS_SECONDS. */
#include <stdlib.h>

#include "poller.h"
#include "storms.h"

/* The caller runs; nothing else is there. */
static const char *unrest(void)
{
	struct stats sum;
	int live = 0;

	for (struct g *gp = ld_acq(&sched.allg); gp; gp = gp->alllink)
		live += ld_acq(&gp->status) != GDEAD && ld_acq(&gp->status) != GIDLE;
	if (live != 1)
		return "Gs are left";
	for (struct m *mp = ld_acq(&sched.allm); mp; mp = mp->alllink)
		if (ld_acq(&mp->curg) && ld_acq(&mp->curg) != getg())
			return "an M has a G";
	if (ld_sc(&sched.npidle) != nprocs - 1)
		return "a P is not idle";
	if (ld_sc(&sched.nmspinning) != 0)
		return "an M spins";
	if (ld_sc(&sched.runqsize) != 0)
		return "the global queue is not empty";
	for (int i = 0; i < nprocs; i++) {
		if (!runqempty(sched.allp[i]))
			return "a local queue is not empty";
		if (ld_acq(&sched.allp[i]->timers.first) != 0)
			return "a timer is left";
	}
	if (netpoll_anywaiters())
		return "somebody waits for a descriptor";
	stats_sum(&sum);
	if (sum.created != sum.finished + 1)
		return "not as many ended as began";
	return NULL;
}

static void expect_quiet(void)
{
	uint64_t until = now_ns() + SLOW_NS;
	const char *why;

	/* The last ones have said that they are done, and may be on their way out; and each time
	 * that we slept another M comes along to look for work. */
	for (int looks = 1; (why = unrest()) != NULL && now_ns() < until; looks++) {
		burn_ns(20 * US);
		if (looks % 100 == 0)
			sleep_ns(1 * MS);
	}
	if (why)
		test_say("  %s", why);
	EXPECT(why == NULL);
}

static void blow(int procs, const struct storm *const *storms, int n,
		 void (*change)(struct core_config *))
{
	const char *seconds = getenv("HEDDLE_STRESS_SECONDS");

	if (seconds)
		lasts = (uint64_t)atoi(seconds) * 1000 * MS;
	nprocs = procs;
	start_with(procs, change);
	deadline = now_ns() + lasts;
	grp.left = 1;
	for (int i = 0; i < n; i++)
		storms[i]->begin();
	group_done(&grp);
	group_wait(&grp);
	for (int i = 0; i < n; i++)
		if (storms[i]->check)
			storms[i]->check();
	expect_quiet();
}

static void level_2(struct core_config *config)
{
	config->debuglevel = 2;
}

/* One test for each number of Ps. */
#define STORM(name, change, ...)                                                                   \
	static void name(int procs)                                                                \
	{                                                                                          \
		static const struct storm *const storms[] = { __VA_ARGS__ };                       \
		blow(procs, storms, sizeof(storms) / sizeof(storms[0]), change);                   \
	}                                                                                          \
	TEST_IN(60, name##_on_1_p)                                                                 \
	{                                                                                          \
		name(1);                                                                           \
	}                                                                                          \
	TEST_IN(60, name##_on_2_ps)                                                                \
	{                                                                                          \
		name(2);                                                                           \
	}                                                                                          \
	TEST_IN(60, name##_on_8_ps)                                                                \
	{                                                                                          \
		name(8);                                                                           \
	}                                                                                          \
	TEST_IN(60, name##_on_64_ps)                                                               \
	{                                                                                          \
		name(64);                                                                          \
	}

#define ALL                                                                                        \
	&spawns, &runners, &bursts, &parking, &futexes, &timed, &network, &syscalls, &blocks,      \
		&wires, &loops

STORM(every_g_of_a_spawn_storm_runs_exactly_once, NULL, &spawns)
STORM(no_g_runs_on_two_ms_at_once, NULL, &runners)
STORM(a_steal_storm_at_debug_level_2_keeps_every_structure_whole, level_2, &bursts, &spawns,
      &runners)
STORM(a_park_storm_wakes_each_g_once_for_each_park, NULL, &parking)
STORM(a_futex_storm_loses_no_item_and_no_wake_up, NULL, &futexes)
STORM(timed_waits_end_once_whoever_ends_them, NULL, &timed)
STORM(a_network_storm_loses_no_byte, NULL, &network)
STORM(syscall_storms_lose_no_p, NULL, &syscalls)
STORM(storms_of_unannounced_blocks_lose_no_p, NULL, &blocks)
STORM(wired_gs_stay_on_their_kernel_threads_in_a_storm, NULL, &wires)
STORM(preemption_under_load_spoils_no_register, NULL, &loops)
STORM(procresize_under_load_loses_nothing, NULL, ALL, &resize)
STORM(everything_at_once_loses_nothing, NULL, ALL)
STORM(everything_at_once_at_debug_level_2_loses_nothing, level_2, ALL, &resize)

/* The same under a policy: on one P, and on eight with structures checked. */
static struct policyspec wanted;

static void by_policy(struct core_config *config)
{
	config->policy = &wanted;
}

static void by_policy_at_level_2(struct core_config *config)
{
	by_policy(config);
	level_2(config);
}

static void everything_under(const char *policy, int procs)
{
	static const struct storm *const storms[] = { ALL, &resize };
	const char *wrong;

	EXPECT(policy_parse(policy, &wanted, &wrong));
	blow(procs, storms, sizeof(storms) / sizeof(*storms),
	     procs == 1 ? by_policy : by_policy_at_level_2);
	/* It was there from the beginning, and broke no rule. */
	EXPECT(sched.odd);
	EXPECT_EQ(ld_rlx(&sched.policy), wanted.kind != POLICY_GO);
}

#define POLICY_STORM(name, policy)                                                                 \
	TEST_IN(60, everything_under_##name##_on_1_p)                                              \
	{                                                                                          \
		everything_under(policy, 1);                                                       \
	}                                                                                          \
	TEST_IN(60, everything_under_##name##_on_8_ps)                                             \
	{                                                                                          \
		everything_under(policy, 8);                                                       \
	}

POLICY_STORM(fifo, "fifo")
POLICY_STORM(rr, "rr,slice=100us")
POLICY_STORM(lifo, "lifo,steal=one")
POLICY_STORM(random, "random")
POLICY_STORM(cfs, "cfs")
POLICY_STORM(pct, "pct:depth=10")
POLICY_STORM(chaos, "chaos")
POLICY_STORM(other_switches, "go,runnext=off,steal=one,spin=off,grq=7,local=5,slice=1ms")
POLICY_STORM(no_stealing, "go,steal=off,local=1")
