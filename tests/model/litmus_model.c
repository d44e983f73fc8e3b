/* The memory model itself, on the small programs by which such models are told apart: what
 * may be seen is seen in some execution, what may not is seen in none. Read memory.c. */
#include <string.h>

#include "model.h"

static ATOMIC(uint32_t) x, y;
static uint32_t r[4];
static int data;

static void begin(void)
{
	x = y = 0;
	memset(r, 0, sizeof(r));
	data = 0;
	model_name(&x, sizeof(x), "x");
	model_name(&y, sizeof(y), "y");
	model_name(&data, sizeof(data), "data");
}

static void reach_pair(void)
{
	model_reach(2 * r[0] + r[1]);
}

#define THREAD(name, code)                                                                         \
	static void name(void *arg)                                                                \
	{                                                                                          \
		(void)arg;                                                                         \
		code                                                                               \
	}

#define RUN(first, second, checks)                                                                 \
	begin();                                                                                   \
	model_thread(#first, first, NULL, NULL);                                                   \
	model_thread(#second, second, NULL, NULL);                                                 \
	model_finally(checks)

/* ---- store, then look ---- */

THREAD(store_rel_x_look_y, st_rel(&x, 1); r[0] = ld_acq(&y);)
THREAD(store_rel_y_look_x, st_rel(&y, 1); r[1] = ld_acq(&x);)

TEST(release_and_acquire_let_both_miss)
{
	RUN(store_rel_x_look_y, store_rel_y_look_x, reach_pair);
	model_must_reach(4);
}

THREAD(store_rlx_x_look_y, st_rlx(&x, 1); r[0] = ld_sc(&y);)
THREAD(store_rlx_y_look_x, st_rlx(&y, 1); r[1] = ld_sc(&x);)

TEST(sc_looks_alone_let_both_miss)
{
	RUN(store_rlx_x_look_y, store_rlx_y_look_x, reach_pair);
	model_must_reach(4);
}

static void not_both_missed(void)
{
	EXPECT(r[0] || r[1]);
	model_reach(2 * r[0] + r[1] - 1);
}

THREAD(store_sc_x_look_y, st_sc(&x, 1); r[0] = ld_sc(&y);)
THREAD(store_sc_y_look_x, st_sc(&y, 1); r[1] = ld_sc(&x);)

TEST(sc_stores_and_looks_let_one_miss)
{
	RUN(store_sc_x_look_y, store_sc_y_look_x, not_both_missed);
	model_must_reach(3);
}

THREAD(store_rlx_x_add_y, st_rlx(&x, 1); r[0] = add_sc(&y, 0);)
THREAD(add_y_look_x, add_sc(&y, 1); r[1] = ld_rlx(&x);)

TEST(a_look_by_addition_orders_what_is_before_it)
{
	RUN(store_rlx_x_add_y, add_y_look_x, not_both_missed);
	model_must_reach(3);
}

/* ---- one after the other ---- */

static void seen_in_order(void)
{
	EXPECT(!(r[0] == 1 && r[1] == 0));
}

static void reach_out_of_order(void)
{
	if (r[0] == 1)
		model_reach(r[1]);
}

THREAD(write_rlx, st_rlx(&x, 1); st_rlx(&y, 1);)
THREAD(write_rel, st_rlx(&x, 1); st_rel(&y, 1);)
THREAD(read_rlx, r[0] = ld_rlx(&y); r[1] = ld_rlx(&x);)
THREAD(read_acq, r[0] = ld_acq(&y); r[1] = ld_rlx(&x);)

TEST(release_and_acquire_carry_what_was_before)
{
	RUN(write_rel, read_acq, seen_in_order);
}

TEST(release_without_acquire_carries_nothing)
{
	RUN(write_rel, read_rlx, reach_out_of_order);
	model_must_reach(2);
}

TEST(acquire_without_release_carries_nothing)
{
	RUN(write_rlx, read_acq, reach_out_of_order);
	model_must_reach(2);
}

/* The order of sc steps is not the order in which they come to be seen. */
THREAD(write_sc_first, st_sc(&x, 1); st_rlx(&y, 1);)
THREAD(read_sc_last, r[0] = ld_rlx(&y); r[1] = ld_sc(&x);)

TEST(an_sc_store_may_be_passed_by_a_later_relaxed_one)
{
	RUN(write_sc_first, read_sc_last, reach_out_of_order);
	model_must_reach(2);
}

THREAD(add_rlx_y, add_rlx(&y, 1);)
THREAD(read_two_acq, r[0] = ld_acq(&y) == 2; r[1] = ld_rlx(&x);)

TEST(a_read_modify_write_passes_on_what_it_read)
{
	RUN(write_rel, read_two_acq, seen_in_order);
	model_thread("adder", add_rlx_y, NULL, NULL);
}

THREAD(write_plain, data = 1; st_rel(&y, 1);)
THREAD(read_plain, if (ld_acq(&y)) r[0] = (uint32_t)data;)

static void reach_data(void)
{
	model_reach(r[0]);
}

TEST(plain_memory_follows_release_and_acquire)
{
	RUN(write_plain, read_plain, reach_data);
	model_must_reach(2);
}

/* ---- one location ---- */

THREAD(write_twice, st_rlx(&x, 1); st_rlx(&x, 2);)
THREAD(read_twice, r[0] = ld_rlx(&x); r[1] = ld_rlx(&x);)

static void never_backwards(void)
{
	EXPECT(r[1] >= r[0]);
	model_reach(r[0] == 0 ? r[1] : 2 + r[1]);
}

TEST(one_word_never_goes_back)
{
	RUN(write_twice, read_twice, never_backwards);
	model_must_reach(5);
}

THREAD(add_x, add_rlx(&x, 1);)
THREAD(cas_x, r[0] = cas_rlx(&x, 0, 5);)

static void no_addition_lost(void)
{
	EXPECT_EQ(x, r[0] ? 7 : 2);
	model_reach(r[0]);
}

TEST(additions_are_not_lost)
{
	RUN(add_x, cas_x, no_addition_lost);
	model_thread("adder", add_x, NULL, NULL);
	model_must_reach(2);
}

/* ---- two writers, two readers ---- */

THREAD(write_x, st_rel(&x, 1);)
THREAD(write_y, st_rel(&y, 1);)
THREAD(read_xy_acq, r[0] = ld_acq(&x); r[1] = ld_acq(&y);)
THREAD(read_yx_acq, r[2] = ld_acq(&y); r[3] = ld_acq(&x);)
THREAD(write_x_sc, st_sc(&x, 1);)
THREAD(write_y_sc, st_sc(&y, 1);)
THREAD(read_xy_sc, r[0] = ld_sc(&x); r[1] = ld_sc(&y);)
THREAD(read_yx_sc, r[2] = ld_sc(&y); r[3] = ld_sc(&x);)

static bool disagree(void)
{
	return r[0] == 1 && r[1] == 0 && r[2] == 1 && r[3] == 0;
}

static void reach_disagreement(void)
{
	model_reach(disagree());
}

static void no_disagreement(void)
{
	EXPECT(!disagree());
}

TEST(readers_with_acquire_may_disagree)
{
	RUN(write_x, write_y, reach_disagreement);
	model_thread("xy", read_xy_acq, NULL, NULL);
	model_thread("yx", read_yx_acq, NULL, NULL);
	model_must_reach(2);
}

TEST(readers_with_sc_agree)
{
	RUN(write_x_sc, write_y_sc, no_disagreement);
	model_thread("xy", read_xy_sc, NULL, NULL);
	model_thread("yx", read_yx_sc, NULL, NULL);
}

/* C++20 says so: of two looks at one word the one that saw the older store comes first. */
TEST(readers_with_sc_agree_on_weaker_stores_too)
{
	RUN(write_x, write_y, no_disagreement);
	model_thread("xy", read_xy_sc, NULL, NULL);
	model_thread("yx", read_yx_sc, NULL, NULL);
}

/* ---- waiting ---- */

THREAD(spin, while (ld_acq(&y) == 0) model_relax(); r[0] = ld_rlx(&x);)

static void spun(void)
{
	EXPECT_EQ(r[0], 1);
}

TEST(a_spin_ends_when_the_word_changes)
{
	RUN(write_rel, spin, spun);
}
