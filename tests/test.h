/* The test driver: every TEST of a program runs in a process of its own.
 *
 *   TEST(a_sentence_that_says_what_holds) { EXPECT(1 + 1 == 2); EXPECT_EQ(f(), 0); }
 *
 * A program built with test.c runs all its tests, or those whose names contain one of
 * its arguments. Each prints one line, "ok NAME" or "not ok NAME: why"; a failure also
 * prints the seed and the command that repeats it. A test that does not end in time is
 * a failure. EXPECT uses no libc state, so it works on any stack and any thread. */
#ifndef HEDDLE_TEST_H
#define HEDDLE_TEST_H

#include <stdbool.h>
#include <stdint.h>

struct test {
	const char *name;
	void (*fn)(void);
	unsigned seconds;
	struct test *next;
};

void test_register(struct test *t);
void test_failed(const char *file, int line, const char *what, long long a, long long b,
		 bool values) __attribute__((noreturn));

/* test_seed: the number that all random choices of this run come from ($HEDDLE_SEED). */
uint64_t test_seed(void);

/* test_say: a line on standard output, formatted with %s %d %u (long long) only. */
void test_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define TEST_IN(secs, test_name)                                                                   \
	static void test_##test_name(void);                                                        \
	__attribute__((constructor)) static void register_##test_name(void)                        \
	{                                                                                          \
		static struct test t = { #test_name, test_##test_name, secs, 0 };                  \
		test_register(&t);                                                                 \
	}                                                                                          \
	static void test_##test_name(void)

#define TEST(test_name) TEST_IN(60, test_name)

#define EXPECT(cond)                                                                               \
	do {                                                                                       \
		if (!(cond))                                                                       \
			test_failed(__FILE__, __LINE__, #cond, 0, 0, false);                       \
	} while (0)

#define EXPECT_EQ(left, right)                                                                     \
	do {                                                                                       \
		long long expect_a = (long long)(left), expect_b = (long long)(right);             \
		if (expect_a != expect_b)                                                          \
			test_failed(__FILE__, __LINE__, #left " == " #right, expect_a, expect_b,   \
				    true);                                                         \
	} while (0)

#endif
