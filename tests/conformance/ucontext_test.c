/* getcontext, setcontext, swapcontext and makecontext: a context's signal mask comes with it, and
 * is no other thread's. The same holds natively. */
#include "event.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <xmmintrin.h>

enum { STACK = 65536, ROUNDS = 200, THREADS = 3 };

struct fiber {
	ucontext_t main, own;
	int runs;
	bool over;
	char stack[STACK];
};

static _Atomic int wrong;

static bool blocks(int sig)
{
	sigset_t mask;

	EXPECT_EQ(pthread_sigmask(SIG_BLOCK, NULL, &mask), 0);
	return sigismember(&mask, sig) == 1;
}

static struct fiber *fiber_of(unsigned high, unsigned low)
{
	return (struct fiber *)(((uintptr_t)high << 32) | low);
}

static void make(struct fiber *f, void (*fn)(unsigned, unsigned))
{
	EXPECT_EQ(getcontext(&f->own), 0);
	f->own.uc_stack.ss_sp = f->stack;
	f->own.uc_stack.ss_size = sizeof(f->stack);
	f->own.uc_link = &f->main;
	makecontext(&f->own, (void (*)(void))fn, 2, (unsigned)((uintptr_t)f >> 32),
		    (unsigned)(uintptr_t)f);
}

static void blocks_usr1(unsigned high, unsigned low)
{
	struct fiber *f = fiber_of(high, low);

	for (; f->runs < ROUNDS; f->runs++) {
		wrong += !blocks(SIGUSR1);
		sched_yield();
		wrong += !blocks(SIGUSR1);
		EXPECT_EQ(swapcontext(&f->own, &f->main), 0);
	}
	f->over = true;
}

static void *has_a_fiber(void *arg)
{
	static struct fiber fibers[THREADS];
	struct fiber *f = &fibers[(intptr_t)arg];

	make(f, blocks_usr1);
	sigaddset(&f->own.uc_sigmask, SIGUSR1);
	while (!f->over) {
		EXPECT_EQ(swapcontext(&f->main, &f->own), 0);
		wrong += blocks(SIGUSR1);
		sched_yield();
		wrong += blocks(SIGUSR1);
	}
	EXPECT_EQ(f->runs, ROUNDS);
	return NULL;
}

static void *looks_at_its_mask(void *arg)
{
	for (int i = 0; i < 4 * ROUNDS; i++) {
		wrong += blocks(SIGUSR1);
		sched_yield();
	}
	return arg;
}

TEST(the_mask_of_a_context_is_no_other_threads)
{
	pthread_t t[2 * THREADS];

	for (intptr_t i = 0; i < THREADS; i++) {
		EXPECT_EQ(pthread_create(&t[i], NULL, has_a_fiber, (void *)i), 0);
		EXPECT_EQ(pthread_create(&t[THREADS + i], NULL, looks_at_its_mask, NULL), 0);
	}
	for (int i = 0; i < 2 * THREADS; i++)
		EXPECT_EQ(pthread_join(t[i], NULL), 0);
	EXPECT_EQ(wrong, 0);
}

/* ---- handlers ---- */

static __thread ucontext_t back;
static __thread volatile int handled;

static void goes_back(int sig)
{
	(void)sig;
	handled++;
	setcontext(&back);
}

static void *jumps_out_of_handlers(void *arg)
{
	volatile int raised = 0;

	EXPECT_EQ(getcontext(&back), 0);
	EXPECT_EQ(handled, raised);
	EXPECT(!blocks(SIGUSR1));
	if (raised < ROUNDS) {
		raised++;
		sched_yield();
		EXPECT_EQ(raise(SIGUSR1), 0);
		EXPECT(!"reached");
	}
	return arg;
}

TEST(a_handler_that_ends_by_setcontext_leaves_nothing_blocked)
{
	pthread_t t[THREADS];

	handle_with(SIGUSR1, goes_back, 0);
	for (int i = 0; i < THREADS; i++)
		EXPECT_EQ(pthread_create(&t[i], NULL, jumps_out_of_handlers, NULL), 0);
	for (int i = 0; i < THREADS; i++)
		EXPECT_EQ(pthread_join(t[i], NULL), 0);
}

static volatile int when, state;

static void notes(int sig)
{
	(void)sig;
	when = state;
}

static void raises_what_it_blocks(unsigned high, unsigned low)
{
	struct fiber *f = fiber_of(high, low);

	state = 1;
	EXPECT_EQ(raise(SIGUSR1), 0);
	EXPECT_EQ(when, 0);
	state = 2;
	EXPECT_EQ(swapcontext(&f->own, &f->main), 0);
	EXPECT_EQ(raise(SIGUSR1), 0);
	state = 3;
}

static void *lets_in(void *arg)
{
	static struct fiber f;

	make(&f, raises_what_it_blocks);
	sigaddset(&f.own.uc_sigmask, SIGUSR1);
	EXPECT_EQ(swapcontext(&f.main, &f.own), 0);
	EXPECT_EQ(when, 2);
	EXPECT(sigismember(&f.own.uc_sigmask, SIGUSR1) == 1);
	/* And by the way back that makecontext lays. */
	when = 0;
	EXPECT_EQ(swapcontext(&f.main, &f.own), 0);
	EXPECT_EQ(when, 3);
	EXPECT(!blocks(SIGUSR1));
	return arg;
}

TEST(what_is_pending_comes_when_a_context_lets_it_in)
{
	handle_with(SIGUSR1, notes, 0);
	on_thread(lets_in, NULL);
}

/* ---- what comes along ---- */

static long got[9];

static void takes_nine(long a, long b, long c, long d, long e, long f, long g, long h, long i)
{
	long all[] = { a, b, c, d, e, f, g, h, i };

	memcpy(got, all, sizeof(got));
	EXPECT_EQ((uintptr_t)__builtin_frame_address(0) % 16, 0);
}

static void *calls_with_nine(void *arg)
{
	static struct fiber f;
	static const long ones[] = { 1, -2, 3, 4, 5, 6, 7, -8, 1L << 40 };

	make(&f, NULL);
	makecontext(&f.own, (void (*)(void))takes_nine, 9, ones[0], ones[1], ones[2], ones[3],
		    ones[4], ones[5], ones[6], ones[7], ones[8]);
	EXPECT_EQ(swapcontext(&f.main, &f.own), 0);
	EXPECT(memcmp(got, ones, sizeof(ones)) == 0);
	return arg;
}

TEST(the_arguments_of_makecontext_come_to_the_function)
{
	on_thread(calls_with_nine, NULL);
}

static void rounds_upwards(unsigned high, unsigned low)
{
	struct fiber *f = fiber_of(high, low);

	_MM_SET_ROUNDING_MODE(_MM_ROUND_UP);
	EXPECT_EQ(swapcontext(&f->own, &f->main), 0);
	EXPECT_EQ(_MM_GET_ROUNDING_MODE(), _MM_ROUND_UP);
}

static void *rounds_in_two_ways(void *arg)
{
	static struct fiber f;

	make(&f, rounds_upwards);
	EXPECT_EQ(swapcontext(&f.main, &f.own), 0);
	EXPECT_EQ(_MM_GET_ROUNDING_MODE(), _MM_ROUND_NEAREST);
	EXPECT_EQ(swapcontext(&f.main, &f.own), 0);
	EXPECT_EQ(_MM_GET_ROUNDING_MODE(), _MM_ROUND_NEAREST);
	return arg;
}

TEST(the_rounding_of_a_context_comes_with_it)
{
	on_thread(rounds_in_two_ways, NULL);
}

static void *sets_what_is_not_there(void *arg)
{
	ucontext_t *nowhere = mmap(NULL, STACK, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ucontext_t here;

	errno = 0;
	EXPECT_EQ(setcontext(nowhere), -1);
	EXPECT_EQ(errno, EFAULT);
	errno = 0;
	EXPECT_EQ(swapcontext(&here, nowhere), -1);
	EXPECT_EQ(errno, EFAULT);
	return arg;
}

TEST(a_context_that_is_not_there_is_an_error)
{
	on_thread(sets_what_is_not_there, NULL);
}

static void ends(unsigned high, unsigned low)
{
	(void)high;
	(void)low;
}

static void *has_one_without_link(void *arg)
{
	static struct fiber f;

	make(&f, ends);
	f.own.uc_link = NULL;
	makecontext(&f.own, (void (*)(void))ends, 0);
	setcontext(&f.own);
	return arg;
}

TEST(the_end_of_a_context_without_link_is_the_processs)
{
	pid_t pid = fork();
	int status;

	EXPECT(pid >= 0);
	if (pid == 0) {
		on_thread(has_one_without_link, NULL);
		_exit(1);
	}
	EXPECT_EQ(waitpid(pid, &status, 0), pid);
	EXPECT_EQ(status, 0);
}
