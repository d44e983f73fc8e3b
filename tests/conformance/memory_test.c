/* The memory of threads that ended, or were not made: it is given back. The same holds natively. */
#include <sys/resource.h>

#include "event.h"

enum { MIB = 1 << 20 };

/* How much is mapped, and how much of that is there. */
static void sizes(long *mapped, long *resident)
{
	char line[128] = { 0 };
	int fd = open("/proc/self/statm", O_RDONLY);

	EXPECT(fd >= 0 && read(fd, line, sizeof(line) - 1) > 0);
	close(fd);
	EXPECT_EQ(sscanf(line, "%ld %ld", mapped, resident), 2);
	*mapped *= 4096;
	*resident *= 4096;
}

static long resident(void)
{
	long mapped, there;

	sizes(&mapped, &there);
	return there;
}

/* Until no more than that is. It may take a while, for who ends a thread soon makes another; the
 * test's time is its limit. */
static void comes_down_to(long bytes)
{
	while (resident() > bytes)
		usleep(10000);
}

enum { DEEP = 200, BIG = 96 * 1024 };

static pthread_barrier_t all;
static __thread unsigned char big[BIG] = { 1, 2, 3, [BIG / 2] = 4, [BIG - 1] = 5 };

static bool is_fresh(void)
{
	long sum = 0;

	for (int i = 0; i < BIG; i++)
		sum += big[i];
	return sum == 1 + 2 + 3 + 4 + 5 && big[BIG / 2] == 4 && big[BIG - 1] == 5;
}

static void *deep(void *arg)
{
	volatile char *at = __builtin_alloca(MIB);

	EXPECT(is_fresh());
	memset(big, 7, sizeof(big));
	for (int i = 0; i < MIB; i += 4096)
		at[i] = 1;
	pthread_barrier_wait(&all);
	return arg;
}

static void deep_threads(void)
{
	static pthread_t t[DEEP];

	start_numbered(t, DEEP, deep);
	for (long i = 0; i < DEEP; i++)
		EXPECT_EQ(result_of(t[i]), i);
}

TEST(the_deep_pages_of_threads_that_ended_are_given_back_and_serve_again)
{
	long before;

	pthread_barrier_init(&all, NULL, DEEP);
	before = resident();
	for (int round = 0; round < 3; round++) {
		deep_threads();
		/* Thread-local variables may stay. */
		comes_down_to(before + (long)DEEP * 2 * BIG);
	}
}

static void *fills_its_stack(void *arg)
{
	volatile char *at = __builtin_alloca(35 * MIB);

	for (int i = 0; i < 35 * MIB; i += 4096)
		at[i] = 1;
	return arg;
}

static void *stays(void *arg)
{
	for (;;)
		pause();
	return arg;
}

/* Is its memory just being given back, the thread that ended serves again all the same. The others
 * have what room there would be beside it. */
TEST(who_has_memory_for_one_thread_at_a_time_has_one_at_any_time)
{
	struct rlimit space = { 0, RLIM_INFINITY };
	pthread_attr_t attr;
	pthread_t t, others[7];
	long before, mapped, there;

	pthread_attr_init(&attr);
	EXPECT_EQ(pthread_attr_setstacksize(&attr, 36 * MIB), 0);
	for (int i = 0; i < 7; i++)
		EXPECT_EQ(pthread_create(&others[i], &attr, stays, NULL), 0);
	before = resident();
	for (int i = 0; i < 4; i++) {
		EXPECT_EQ(pthread_create(&t, &attr, fills_its_stack, NULL), 0);
		EXPECT_EQ(pthread_join(t, NULL), 0);
		if (i == 0) {
			sizes(&mapped, &there);
			space.rlim_cur = (rlim_t)(mapped + 8 * MIB);
			EXPECT_EQ(setrlimit(RLIMIT_AS, &space), 0);
		}
		/* As soon as any of it is. */
		while (resident() > before + 34 * MIB) {
		}
	}
}

static void *same(void *arg)
{
	return arg;
}

/* Grows by what is counted once, and by what a leak would be so many times. */
static void costs_nothing(void (*try)(void), int rounds, long most)
{
	long before;

	for (int i = 0; i < rounds / 100; i++)
		try();
	before = resident();
	for (int i = 0; i < rounds; i++)
		try();
	comes_down_to(before + most);
	EXPECT_EQ(on_thread(same, (void *)5), 5);
}

static void has_a_large_guard(void)
{
	pthread_attr_t attr;
	pthread_t t;

	pthread_attr_init(&attr);
	EXPECT_EQ(pthread_attr_setguardsize(&attr, 16 * PAGE), 0);
	EXPECT_EQ(pthread_create(&t, &attr, same, NULL), 0);
	EXPECT_EQ(pthread_join(t, NULL), 0);
	pthread_attr_destroy(&attr);
}

TEST(one_with_a_large_guard_costs_nothing_that_has_ended)
{
	costs_nothing(has_a_large_guard, 10000, 2 * MIB);
}

enum { CROWD = 100 };

static void *waits_for_all(void *arg)
{
	pthread_barrier_wait(&all);
	return arg;
}

static void has_a_stack(size_t bytes, size_t guard, int n, void *(*fn)(void *))
{
	pthread_attr_t attr;
	pthread_t t[CROWD];

	pthread_attr_init(&attr);
	EXPECT_EQ(pthread_attr_setstacksize(&attr, bytes), 0);
	EXPECT_EQ(pthread_attr_setguardsize(&attr, guard), 0);
	for (int i = 0; i < n; i++)
		EXPECT_EQ(pthread_create(&t[i], &attr, fn, NULL), 0);
	for (int i = 0; i < n; i++)
		EXPECT_EQ(pthread_join(t[i], NULL), 0);
	pthread_attr_destroy(&attr);
}

static void make_a_crowd_and_one_that_is_larger(void)
{
	has_a_stack(192 * 1024, PAGE, CROWD, waits_for_all);
	has_a_stack(2 * MIB, PAGE, 1, same);
}

TEST(threads_of_two_sizes_serve_again)
{
	EXPECT_EQ(pthread_barrier_init(&all, NULL, CROWD), 0);
	/* Each P may keep some. */
	costs_nothing(make_a_crowd_and_one_that_is_larger, 100, 100 * MIB);
}

/* Neither can have the other's. */
static void make_crowds_of_two_kinds(void)
{
	has_a_stack(1100 * 1024, 4 * PAGE, CROWD, waits_for_all);
	has_a_stack(1900 * 1024, PAGE, CROWD, waits_for_all);
}

TEST(threads_of_two_sizes_and_guards_serve_again)
{
	EXPECT_EQ(pthread_barrier_init(&all, NULL, CROWD), 0);
	costs_nothing(make_crowds_of_two_kinds, 100, 100 * MIB);
}

static void asks_for_too_much(void)
{
	pthread_attr_t attr;
	pthread_t t;

	pthread_attr_init(&attr);
	EXPECT_EQ(pthread_attr_setstacksize(&attr, (size_t)1 << 46), 0);
	EXPECT_EQ(pthread_create(&t, &attr, same, NULL), EAGAIN);
	pthread_attr_destroy(&attr);
}

TEST(a_thread_that_cannot_be_made_costs_nothing)
{
	costs_nothing(asks_for_too_much, 10000, 2 * MIB);
}

static void has_its_own_stack(void)
{
	static char stack[256 * 1024] __attribute__((aligned(4096)));
	pthread_attr_t attr;
	pthread_t t;

	pthread_attr_init(&attr);
	EXPECT_EQ(pthread_attr_setstack(&attr, stack, sizeof(stack)), 0);
	EXPECT_EQ(pthread_create(&t, &attr, same, stack), 0);
	EXPECT_EQ(result_of(t), (long)(intptr_t)stack);
	pthread_attr_destroy(&attr);
}

TEST(one_with_a_stack_of_the_program_s_costs_nothing)
{
	costs_nothing(has_its_own_stack, 10000, 2 * MIB);
}
