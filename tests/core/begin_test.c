/* New Gs begin in the order in which one G makes them. */
#include "host.h"
#include "sched.h"

static struct group grp;
static ATOMIC(uint32_t) begun;

static void begins_in_turn(void *arg)
{
	EXPECT_EQ(ld_rlx(&begun), (uintptr_t)arg);
	add_rlx(&begun, 1);
	group_done(&grp);
}

/* The maker waits, and then yields. */
TEST(gs_begin_in_the_order_in_which_one_makes_them)
{
	enum { EACH = 5 };

	start(1);
	for (uintptr_t round = 0; round < 2; round++) {
		grp.left = EACH;
		for (uintptr_t i = 0; i < EACH; i++)
			go(begins_in_turn, (void *)(round * EACH + i));
		if (round == 1)
			gosched();
		group_wait(&grp);
	}
}
