/* The look whether every G waits for another: it must find it, and must not where somebody may
 * come. */
#include "asleep.h"

#include "host.h"
#include "raw.h"
#include "sched.h"

enum { LONG_MS = 2500, TIMEDOUT = 110, MONOTONIC = 1 };

static ATOMIC(uint32_t) asked, never;

static void count_asked(void)
{
	add_rlx(&asked, 1);
}

static void counted(struct core_config *config)
{
	config->asleep = count_asked;
}

TEST(one_who_sleeps_for_a_time_is_not_asleep)
{
	start_with(2, counted);
	sleep_ns((uint64_t)LONG_MS * MS);
	EXPECT_EQ(ld_rlx(&asked), 0);
}

TEST(one_who_blocks_in_the_kernel_is_not_asleep)
{
	start_with(2, counted);
	raw_sleep((uint64_t)LONG_MS * MS);
	EXPECT_EQ(ld_rlx(&asked), 0);
}

TEST(a_wait_with_a_deadline_is_not_asleep)
{
	struct deadline d = { .clock = MONOTONIC, .at = nanotime() + (uint64_t)LONG_MS * MS };

	start_with(2, counted);
	EXPECT_EQ(futex_wait(&never, 0, (uint32_t)FUTEX_ANY, &d, 0), -TIMEDOUT);
	EXPECT_EQ(ld_rlx(&asked), 0);
}

static void wait_for_ever(void *arg)
{
	(void)arg;
	futex_wait(&never, 0, (uint32_t)FUTEX_ANY, NULL, 0);
}

/* Nobody is left to tell of it: it ends the process, well if all is as it should be. */
static void end_well(void)
{
	struct asleep a;
	int n = 0;

	for (struct g *gp = geach(NULL); gp; gp = geach(gp)) {
		enum asleep_state state = asleep_look(gp, &a);
		if (state == ASLEEP_DEAD)
			continue;
		EXPECT_EQ(state, ASLEEP_WAITS);
		EXPECT(a.on == &never && a.context != 0 && a.goid != 0);
		n++;
	}
	EXPECT_EQ(n, 4);
	arch_syscall3(__NR_exit_group, 0, 0, 0);
}

static void ending(struct core_config *config)
{
	config->asleep = end_well;
}

TEST(all_who_wait_for_another_are_asleep)
{
	if (!can_preempt()) {
		skipped("its kernel threads are libc's");
		return;
	}
	start_with(2, ending);
	for (int i = 0; i < 3; i++)
		go(wait_for_ever, NULL);
	wait_for_ever(NULL);
	EXPECT(false);
}
