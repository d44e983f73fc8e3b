/* The base of GS is one thread's, and of those that it makes, whether it is set by the system call
 * or by an instruction, as the sandboxes of Firefox do. */
#ifdef __x86_64__
#include "threads.h"

#include <asm/prctl.h>
#include <sys/auxv.h>
#include <sys/syscall.h>

/* More than there are Ps. */
enum { MANY = 20, HWCAP2_FSGSBASE_ = 2 };

int arch_prctl(int code, unsigned long at);

static long places[MANY];

static long there(void)
{
	long value;

	__asm__ volatile("movq %%gs:0, %0" : "=r"(value));
	return value;
}

static void set_by_instruction(const void *place)
{
	__asm__ volatile("wrgsbase %0" : : "r"(place) : "memory");
}

/* On older machines and kernels the instruction is none. */
static bool may_set(void)
{
	bool may = (getauxval(AT_HWCAP2) & HWCAP2_FSGSBASE_) != 0;

	if (!may)
		test_say("  skipped: the machine has no such instruction");
	return may;
}

static void stays_there(const long *place)
{
	for (int i = 0; i < 10; i++) {
		wander();
		EXPECT_EQ(there(), *place);
	}
}

/* By the system call, and by glibc's name. */
static void *has_a_segment(void *arg)
{
	long *place = arg;

	*place = place - places;
	if (*place % 2)
		EXPECT_EQ(syscall(SYS_arch_prctl, ARCH_SET_GS, place), 0);
	else
		EXPECT_EQ(arch_prctl(ARCH_SET_GS, (unsigned long)place), 0);
	stays_there(place);
	return NULL;
}

TEST(the_base_of_gs_is_one_thread_s)
{
	pthread_t t[MANY];

	for (int i = 0; i < MANY; i++)
		start(&t[i], 1, has_a_segment, &places[i]);
	join(t, MANY);
}

static void *has_its_maker_s(void *arg)
{
	EXPECT_EQ(there(), *(long *)arg);
	stays_there(arg);
	return NULL;
}

static void *sets_it_and_makes_another(void *arg)
{
	long *place = arg;
	pthread_t t;

	*place = place - places;
	set_by_instruction(place);
	stays_there(place);
	start(&t, 1, has_its_maker_s, place);
	stays_there(place);
	join(&t, 1);
	/* Who has the record next does not. */
	set_by_instruction(NULL);
	return NULL;
}

TEST(a_base_of_gs_that_an_instruction_sets_is_one_thread_s)
{
	pthread_t t[MANY];

	if (!may_set())
		return;
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < MANY; i++)
			start(&t[i], 1, sets_it_and_makes_another, &places[i]);
		join(t, MANY);
	}
}

TEST(one_that_is_set_before_there_is_another_thread_stays_and_is_handed_on)
{
	pthread_t t[MANY];

	places[0] = 12345;
	EXPECT_EQ(arch_prctl(ARCH_SET_GS, (unsigned long)places), 0);
	start(t, MANY, has_its_maker_s, places);
	stays_there(places);
	join(t, MANY);
	EXPECT_EQ(there(), 12345);
}

/* ---- one that is stopped in the midst of its computation ---- */

static void *computes_by_it(void *arg)
{
	long *place = arg, wrong = 0;

	*place = place - places;
	set_by_instruction(place);
	for (long i = 0; i < 20000000; i++)
		wrong += there() != *place;
	EXPECT_EQ(wrong, 0);
	return NULL;
}

TEST(who_is_stopped_finds_it_again)
{
	pthread_t t[MANY];

	if (!may_set())
		return;
	for (int i = 0; i < MANY; i++)
		start(&t[i], 1, computes_by_it, &places[i]);
	join(t, MANY);
}
#endif
