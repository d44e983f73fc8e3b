/* Raw futexes: an operation on one word that wakes at another, and words that other processes
 * wait at and wake too. The same holds natively. */
#include "common.h"

/* ---- FUTEX_WAKE_OP ---- */

enum { SLEEPERS = 4 };

static uint32_t words[2], gather;
static int flags; /* FUTEX_PRIVATE_FLAG, or nothing */
static _Atomic bool over;
static _Atomic int woken;

static long futex(uint32_t *at, int op, long n, long n2, uint32_t *to, uint32_t last)
{
	long r = syscall(SYS_futex, at, op | flags, n, n2, to, last);

	return r < 0 ? -errno : r;
}

/* As FUTEX_OP, which minds negative numbers. */
static uint32_t code(int op, int arg, int cmp, int with)
{
	return (uint32_t)op << 28 | (uint32_t)cmp << 24 | ((uint32_t)arg & 0xfff) << 12 |
	       ((uint32_t)with & 0xfff);
}

static void *sleeps_on_and_on(void *arg)
{
	while (!over) {
		long r = futex(&gather, FUTEX_WAIT, 0, 0, NULL, 0);
		EXPECT(r == 0 || (r == -EAGAIN && over));
		woken++;
	}
	return arg;
}

/* Who sleeps can be moved, so they sleep at that word when this returns. */
static void bring(uint32_t *to, int n)
{
	while (n > 0) {
		long r = futex(&gather, FUTEX_REQUEUE, 0, n, to, 0);
		EXPECT(r >= 0 && r <= n);
		n -= (int)r;
		if (n > 0)
			sched_yield();
	}
}

static void wakes(uint32_t *word, long n)
{
	EXPECT_EQ(futex(word, FUTEX_WAKE, INT_MAX, 0, NULL, 0), n);
}

static void asleep(pthread_t *t)
{
	start(t, SLEEPERS, sleeps_on_and_on, NULL);
}

static void awake_all(pthread_t *t)
{
	over = true;
	__atomic_store_n(&gather, 1, __ATOMIC_SEQ_CST);
	futex(&gather, FUTEX_WAKE, INT_MAX, 0, NULL, 0);
	join(t, SLEEPERS);
}

/* Of two at each word: n at the first, and if the comparison holds n2 at the second. */
static void wakes_both(int n, int n2, uint32_t old, int cmp, int with, bool holds)
{
	int before = woken, many = n + (holds ? n2 : 0);

	bring(&words[0], 2);
	bring(&words[1], 2);
	words[1] = old;
	EXPECT_EQ(futex(words, FUTEX_WAKE_OP, n, n2, &words[1], code(FUTEX_OP_ADD, 1, cmp, with)),
		  many);
	EXPECT_EQ(words[1], old + 1);
	wakes(&words[0], 2 - n);
	wakes(&words[1], holds ? 2 - n2 : 2);
	while (woken < before + 4)
		sched_yield();
	EXPECT_EQ(woken, before + 4);
}

static bool compares(int cmp, int a, int b)
{
	switch (cmp) {
	case FUTEX_OP_CMP_EQ:
		return a == b;
	case FUTEX_OP_CMP_NE:
		return a != b;
	case FUTEX_OP_CMP_LT:
		return a < b;
	case FUTEX_OP_CMP_LE:
		return a <= b;
	case FUTEX_OP_CMP_GT:
		return a > b;
	default:
		return a >= b;
	}
}

static void *compares_each_way(void *arg)
{
	static const int pairs[][2] = { { 5, 5 }, { 4, 5 }, { 6, 5 }, { -3, 5 }, { 5, -3 } };
	pthread_t t[SLEEPERS];

	asleep(t);
	for (int cmp = FUTEX_OP_CMP_EQ; cmp <= FUTEX_OP_CMP_GE; cmp++) {
		for (int i = 0; i < 5; i++) {
			int a = pairs[i][0], b = pairs[i][1];
			wakes_both(1 + i % 2, 1 + i / 2 % 2, (uint32_t)a, cmp, b,
				   compares(cmp, a, b));
		}
	}
	awake_all(t);
	return arg;
}

struct operation {
	int op, arg;
	uint32_t old, new;
};

static void *operates_each_way(void *arg)
{
	enum { SHIFT = FUTEX_OP_OPARG_SHIFT };
	static const struct operation ops[] = {
		{ FUTEX_OP_SET, 5, 12, 5 },
		{ FUTEX_OP_SET, -2, 12, -2u },
		{ FUTEX_OP_SET | SHIFT, 31, 12, 1u << 31 },
		{ FUTEX_OP_ADD, 5, 12, 17 },
		{ FUTEX_OP_ADD, -13, 12, -1u },
		{ FUTEX_OP_ADD | SHIFT, 4, 12, 28 },
		{ FUTEX_OP_OR, 5, 12, 13 },
		{ FUTEX_OP_OR, -8, 12, -4u },
		{ FUTEX_OP_OR | SHIFT, 0, 12, 13 },
		{ FUTEX_OP_ANDN, 5, 12, 8 },
		{ FUTEX_OP_ANDN, -1, 12, 0 },
		{ FUTEX_OP_ANDN | SHIFT, 3, 12, 4 },
		{ FUTEX_OP_XOR, 5, 12, 9 },
		{ FUTEX_OP_XOR, -1, 12, ~12u },
		{ FUTEX_OP_XOR | SHIFT, 2, 12, 8 },
	};

	for (size_t i = 0; i < sizeof(ops) / sizeof(*ops); i++) {
		words[1] = ops[i].old;
		EXPECT_EQ(futex(words, FUTEX_WAKE_OP, 1, 1, &words[1],
				code(ops[i].op, ops[i].arg, FUTEX_OP_CMP_EQ, 0)),
			  0);
		EXPECT_EQ(words[1], ops[i].new);
	}
	/* No such operation, which does nothing; no such comparison, which comes after. */
	words[1] = 12;
	EXPECT_EQ(futex(words, FUTEX_WAKE_OP, 1, 1, &words[1], code(5, 1, FUTEX_OP_CMP_EQ, 0)),
		  -ENOSYS);
	EXPECT_EQ(words[1], 12);
	EXPECT_EQ(futex(words, FUTEX_WAKE_OP, 1, 1, &words[1], code(FUTEX_OP_SET, 1, 6, 0)),
		  -ENOSYS);
	EXPECT_EQ(words[1], 1);
	return arg;
}

TEST(an_operation_on_a_second_word_is_done_and_compared)
{
	flags = FUTEX_PRIVATE_FLAG;
	on_thread(operates_each_way, NULL);
	on_thread(compares_each_way, NULL);
}

TEST(an_operation_on_a_second_shared_word_is_done_and_compared)
{
	on_thread(operates_each_way, NULL);
	on_thread(compares_each_way, NULL);
}

/* ---- words that processes share ---- */

/* One word at two addresses, as two processes may have it. */
struct shared {
	uint32_t *here, *there;
};

static struct shared two_views(void)
{
	int fd = memfd_create("word", 0);
	struct shared s;

	EXPECT_EQ(ftruncate(fd, PAGE), 0);
	s.here = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	s.there = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	EXPECT(s.here != MAP_FAILED && s.there != MAP_FAILED && s.here != s.there);
	EXPECT_EQ(close(fd), 0);
	return s;
}

/* Until one was: who is about to sleep is not woken yet. */
static void wake_one(uint32_t *word)
{
	long r;

	while ((r = syscall(SYS_futex, word, FUTEX_WAKE, 1)) == 0)
		sched_yield();
	EXPECT_EQ(r, 1);
}

static void opens_shared(struct wait *w)
{
	struct shared s = two_views();

	opens_pipe(w);
	w->own = s.here;
	w->pid = fork();
	if (w->pid == 0) {
		char c;
		close(w->fd[1]);
		/* Who is interrupted is left alone: the end of the pipe. */
		if (read(w->fd[0], &c, 1) == 1)
			wake_one(s.there);
		_exit(0);
	}
}

static long waits_shared(struct wait *w)
{
	return syscall(SYS_futex, w->own, FUTEX_WAIT, 0, NULL);
}

/* By the child. */
static void is_woken(struct wait *w)
{
	feeds_pipe(w);
	EXPECT_EQ(status_of(w->pid), 0);
}

BLOCKS_UNCANCELLED(a_shared_futex, .open = opens_shared, .block = waits_shared, .release = is_woken,
		   .wants = 0, .how = RESTARTS)

static void *wakes_the_child(void *arg)
{
	for (int i = 0; i < 20; i++)
		wake_one(arg);
	return NULL;
}

static void *waits_20_times(void *arg)
{
	for (int i = 0; i < 20; i++)
		EXPECT_EQ(syscall(SYS_futex, arg, FUTEX_WAIT, 0, NULL), 0);
	return NULL;
}

/* The child's first thread and another one of it. */
TEST(a_thread_wakes_those_of_another_process)
{
	struct shared s = two_views();

	for (int i = 0; i < 2; i++) {
		pid_t pid = fork();
		if (pid == 0) {
			if (i == 0)
				waits_20_times(s.here);
			else
				on_thread(waits_20_times, s.here);
			_exit(0);
		}
		on_thread(wakes_the_child, s.there);
		EXPECT_EQ(status_of(pid), 0);
	}
}

static void *times_out(void *arg)
{
	struct timespec t = { .tv_nsec = 2 * MS }, until = in_ms(CLOCK_MONOTONIC, 2);

	FAILS(syscall(SYS_futex, arg, FUTEX_WAIT, 1, NULL), EAGAIN);
	FAILS(syscall(SYS_futex, arg, FUTEX_WAIT, 0, &t), ETIMEDOUT);
	EXPECT(just_past(CLOCK_MONOTONIC, &until));
	until = in_ms(CLOCK_REALTIME, 2);
	FAILS(syscall(SYS_futex, arg, FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, 0, &until, NULL, 1),
	      ETIMEDOUT);
	EXPECT(just_past(CLOCK_REALTIME, &until));
	return NULL;
}

TEST(a_wait_at_a_shared_word_compares_and_times_out)
{
	struct shared s = two_views();

	run(4, times_out, s.here);
}
