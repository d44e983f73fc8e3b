/* The model checker, as scenarios see it. A scenario sets up shared objects and threads;
 * every interleaving of their steps is run, each with every value that a load may return:
 *
 *   TEST(a_sentence_that_says_what_holds)
 *   {
 *           memset(&x, 0, sizeof(x));
 *           model_thread("writer", write, NULL);
 *           model_finally(check);
 *   }
 *
 * The body runs before each execution, alone, and must leave the same state each time. A
 * step is one atomic access, lock or wait. A broken EXPECT, CHECK or DCHECK, a data race on
 * plain memory, a deadlock and a thread that does not end are failures; each prints the
 * interleaving and a schedule that replays it.
 *
 * Memory is C11's without consume and fences; see memory.c for what is left out. */
#ifndef HEDDLE_MODEL_H
#define HEDDLE_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "atomic.h"

struct g;

struct model_test {
	const char *name;
	void (*setup)(void);
	int bound; /* departures at most (explore.c); negative: any number */
	struct model_test *next;
};

void model_register(struct model_test *test);

#define TEST_BOUND(test_name, departures)                                                          \
	static void test_##test_name(void);                                                        \
	__attribute__((constructor)) static void register_##test_name(void)                        \
	{                                                                                          \
		static struct model_test t = { #test_name, test_##test_name, departures, NULL };   \
		model_register(&t);                                                                \
	}                                                                                          \
	static void test_##test_name(void)

#define TEST(test_name) TEST_BOUND(test_name, -1)

void model_failed(const char *file, int line, const char *format, ...)
	__attribute__((noreturn, format(printf, 3, 4)));

#define EXPECT(cond)                                                                               \
	do {                                                                                       \
		if (!(cond))                                                                       \
			model_failed(__FILE__, __LINE__, "%s", #cond);                             \
	} while (0)

#define EXPECT_EQ(left, right)                                                                     \
	do {                                                                                       \
		long long expect_a = (long long)(left), expect_b = (long long)(right);             \
		if (expect_a != expect_b)                                                          \
			model_failed(__FILE__, __LINE__, "%s == %s (%lld != %lld)", #left, #right, \
				     expect_a, expect_b);                                          \
	} while (0)

/* model_thread: one more thread, of at most five. gp: what getg() is on it, or NULL. Call in
 * the body of a TEST only. model_finally: runs alone when all threads are through. */
void model_thread(const char *name, void (*fn)(void *), void *arg, struct g *gp);
void model_finally(void (*fn)(void));

/* model_must_reach: each of model_reach(0) to model_reach(n - 1) must be called by one
 * execution or another, lest the scenario shows nothing. At most 32. */
void model_must_reach(unsigned n);
void model_reach(unsigned which);

/* model_name: what the printed interleaving calls the object at that place. */
void model_name(const void *at, size_t size, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* model_until: waits for a condition, which reads plain memory and orders nothing. */
void model_until(bool (*cond)(const void *), const void *arg, const char *what);

/* model_choose: any number below n. */
unsigned model_choose(unsigned n, const char *what);

/* Marks a scenario's own bookkeeping: its plain accesses are not looked at for races, nor
 * undone. Needless for what runs before and after the threads. */
#define MODEL_UNWATCHED __attribute__((no_sanitize("thread"), noinline))

/* model_steps: steps that the calling thread has made. */
unsigned model_steps(void);

/* model_waitfree: from here on it is a failure if the caller cannot go on by itself. */
void model_waitfree(bool on);

/* model_slots: in these words a relaxed load and a later store by someone else must be
 * ordered, if the store is a consequence of what the loader did afterwards: else hardware
 * may let the load see that store. */
void model_slots(const void *at, size_t size);

/* model_frame: between the two the caller's stack below this point is in use by what is
 * under test. Whoever touches it after model_frame_over, but the caller, fails. */
void model_frame(void);
void model_frame_over(void);

#endif
