/* Scheduling as a whole: Gs start, yield, park, are readied and end. */
#include "host.h"

static struct group grp;
static ATOMIC(uint32_t) ran;

static void count_up(void *arg)
{
	(void)arg;
	add_rlx(&ran, 1);
	group_done(&grp);
}

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
	start(8);
	grp.left = 10000;
	for (int i = 0; i < 10000; i++)
		go(count_up, NULL);
	group_wait(&grp);
	EXPECT_EQ(ld_rlx(&ran), 10000);
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
