/* Alternate stacks, and handlers that were set to run on them: wherever the signal finds its
 * thread, the handler's frame is where the program wants it, and stays while the handler waits. */
#include "event.h"

#include <execinfo.h>
#include <semaphore.h>
#include <setjmp.h>
#include <ucontext.h>

enum { ALTERNATE = 65536, TINY = 1024, ROOM = 16384, THREADS = 8 };

static struct event handled;
static sem_t goes_on;
static __thread char *alternate, *page;
static __thread volatile int faults;

static bool on_alternate(const void *at)
{
	return (const char *)at >= alternate && (const char *)at < alternate + ALTERNATE;
}

static void take_alternate(void)
{
	stack_t stack = { .ss_sp = malloc(ALTERNATE), .ss_size = ALTERNATE };

	alternate = stack.ss_sp;
	EXPECT_EQ(sigaltstack(&stack, NULL), 0);
}

static void drop_alternate(void)
{
	stack_t none = { .ss_flags = SS_DISABLE };

	EXPECT_EQ(sigaltstack(&none, NULL), 0);
	free(alternate);
}

static void handle_full(int sig, void (*fn)(int, siginfo_t *, void *), int flags)
{
	struct sigaction act = { .sa_sigaction = fn, .sa_flags = flags | SA_SIGINFO };

	EXPECT_EQ(sigaction(sig, &act, NULL), 0);
}

/* ---- registers ---- */

static void opens(int sig, siginfo_t *info, void *uc)
{
	(void)sig;
	(void)uc;
	EXPECT_EQ(mprotect(info->si_addr, PAGE, PROT_READ), 0);
}

/* There is nothing yet of a frame before where the handler's will be. */
static void *keeps_vectors(void *arg)
{
#ifdef __x86_64__
	static const uint64_t before[4] = { 1, 2, 3, 4 };
	uint64_t after[4];

	page = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	EXPECT(page != MAP_FAILED);
	if (arg)
		take_alternate();
	if (__builtin_cpu_supports("avx")) {
		__asm__ volatile("vmovdqu %1, %%ymm5\n\t"
				 "movb (%2), %%al\n\t"
				 "vmovdqu %%ymm5, %0"
				 : "=m"(after)
				 : "m"(before), "r"(page)
				 : "rax", "xmm5", "memory");
		EXPECT(memcmp(before, after, sizeof(before)) == 0);
	}
	if (arg)
		drop_alternate();
	EXPECT_EQ(munmap(page, PAGE), 0);
#endif
	return arg;
}

TEST(a_handler_leaves_all_of_the_registers_of_vectors)
{
	handle_full(SIGSEGV, opens, SA_ONSTACK);
	on_thread(keeps_vectors, NULL);
	on_thread(keeps_vectors, &page);
	handle_full(SIGSEGV, opens, 0);
	on_thread(keeps_vectors, NULL);
}

/* ---- faults ---- */

/* Waits, so that others fault on the same kernel thread, and makes the page good. */
static void mends(int sig, siginfo_t *info, void *uc)
{
	char here;

	(void)sig;
	EXPECT(on_alternate(&here));
	EXPECT(on_alternate(uc));
	EXPECT(on_alternate(info));
	EXPECT(info->si_addr == page);
	tick(&handled);
	while (sem_wait(&goes_on) != 0)
		EXPECT_EQ(errno, EINTR);
	EXPECT(info->si_addr == page);
	EXPECT_EQ(mprotect(page, PAGE, PROT_READ | PROT_WRITE), 0);
	faults++;
}

static void *faults_and_goes_on(void *arg)
{
	double kept = (double)(long)arg;

	page = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	EXPECT(page != MAP_FAILED);
	take_alternate();
	for (int i = 0; i < 20; i++) {
		EXPECT_EQ(mprotect(page, PAGE, PROT_NONE), 0);
		*(volatile char *)page = 7;
		kept += 0.5;
		EXPECT_EQ(faults, i + 1);
	}
	EXPECT_EQ((long)kept, (long)arg + 10);
	drop_alternate();
	return arg;
}

TEST(a_handler_of_a_fault_may_wait_while_others_fault)
{
	pthread_t t[THREADS];

	EXPECT_EQ(sem_init(&goes_on, 0, 0), 0);
	handle_full(SIGSEGV, mends, SA_ONSTACK);
	start_numbered(t, THREADS, faults_and_goes_on);
	await(&handled, THREADS);
	for (int i = 1; i <= 20 * THREADS; i++) {
		await(&handled, i);
		EXPECT_EQ(sem_post(&goes_on), 0);
	}
	join(t, THREADS);
}

static __thread sigjmp_buf out;

static void jumps_out(int sig, siginfo_t *info, void *uc)
{
	char here;

	(void)sig;
	(void)info;
	EXPECT(on_alternate(&here));
	EXPECT(on_alternate(uc));
	siglongjmp(out, 1);
}

static __attribute__((noinline)) int deeper(int n)
{
	volatile char room[4096];

	room[0] = (char)n;
	return n == 0 ? 0 : deeper(n + 1) + room[0];
}

static void *overflows(void *arg)
{
	volatile int caught = 0;

	take_alternate();
	while (caught < 5) {
		if (sigsetjmp(out, 1) == 0)
			deeper(1);
		caught++;
	}
	drop_alternate();
	return arg;
}

TEST(who_overflows_its_stack_jumps_out_again_and_again)
{
	handle_full(SIGSEGV, jumps_out, SA_ONSTACK);
	run(THREADS, overflows, NULL);
}

/* ---- others: nothing is written where the program left no room ---- */

static __thread char *tiny;
static __thread ucontext_t home, there;
static __thread volatile int interrupted;

static void interrupts(int sig, siginfo_t *info, void *uc)
{
	char here;

	(void)sig;
	EXPECT(on_alternate(&here));
	EXPECT(on_alternate(uc));
	EXPECT(on_alternate(info));
	usleep(200);
	interrupted++;
	tick(&handled);
}

static void spins_there(void)
{
	while (interrupted < 3)
		continue;
}

static void *runs_on_a_tiny_stack(void *arg)
{
	take_alternate();
	tiny = malloc(ROOM + TINY);
	memset(tiny, 0x5a, ROOM);
	EXPECT_EQ(getcontext(&there), 0);
	there.uc_stack.ss_sp = tiny + ROOM;
	there.uc_stack.ss_size = TINY;
	there.uc_link = &home;
	makecontext(&there, spins_there, 0);
	tick(arg);
	EXPECT_EQ(swapcontext(&home, &there), 0);
	for (int i = 0; i < ROOM; i++)
		EXPECT_EQ(tiny[i], 0x5a);
	free(tiny);
	drop_alternate();
	return arg;
}

TEST(a_handler_on_an_alternate_stack_leaves_the_thread_s_own_alone)
{
	static struct event entered;
	pthread_t t[3];

	handle_full(SIGUSR1, interrupts, SA_ONSTACK | SA_RESTART);
	start(t, 3, runs_on_a_tiny_stack, &entered);
	await(&entered, 3);
	for (int i = 1; i <= 3; i++) {
		for (int k = 0; k < 3; k++)
			EXPECT_EQ(pthread_kill(t[k], SIGUSR1), 0);
		await(&handled, 3 * i);
	}
	join(t, 3);
}

/* ---- the child of a fork ---- */

static void *forks_with_an_alternate_stack(void *arg)
{
	stack_t old;
	pid_t pid;

	take_alternate();
	pid = fork();
	if (pid == 0) {
		EXPECT_EQ(sigaltstack(NULL, &old), 0);
		EXPECT(old.ss_sp == alternate);
		EXPECT_EQ(old.ss_flags, 0);
		EXPECT_EQ(raise(SIGUSR1), 0);
		EXPECT_EQ(interrupted, 1);
		_exit(0);
	}
	EXPECT_EQ(status_of(pid), 0);
	drop_alternate();
	pid = fork();
	if (pid == 0) {
		EXPECT_EQ(sigaltstack(NULL, &old), 0);
		EXPECT_EQ(old.ss_flags, SS_DISABLE);
		_exit(0);
	}
	EXPECT_EQ(status_of(pid), 0);
	return arg;
}

TEST(a_child_has_the_alternate_stack_of_the_thread_that_forked)
{
	handle_full(SIGUSR1, interrupts, SA_ONSTACK);
	run(3, forks_with_an_alternate_stack, NULL);
}

/* ---- what a frame says of it ---- */

enum { AUTODISARM = 1 << 31 };

static char *other;
static int flags_there, flags_shown;

static void looks_at_its_frame(int sig, siginfo_t *info, void *frame)
{
	const ucontext_t *uc = frame;
	stack_t now, next = { .ss_sp = other, .ss_size = ALTERNATE };
	char here;

	(void)sig;
	(void)info;
	flags_there = uc->uc_stack.ss_flags;
	EXPECT(uc->uc_stack.ss_sp == alternate);
	EXPECT(on_alternate(&here));
	EXPECT_EQ(sigaltstack(NULL, &now), 0);
	flags_shown = now.ss_flags;
	/* Until it ends; or not at all, for it is in use. */
	EXPECT_EQ(sigaltstack(&next, NULL), flags_there == AUTODISARM ? 0 : -1);
}

static void signalled_with(int flags)
{
	stack_t stack = { .ss_sp = alternate, .ss_size = ALTERNATE, .ss_flags = flags }, now;

	EXPECT_EQ(sigaltstack(&stack, NULL), 0);
	EXPECT_EQ(raise(SIGUSR1), 0);
	EXPECT_EQ(flags_there, flags);
	EXPECT_EQ(flags_shown, flags == AUTODISARM ? SS_DISABLE : SS_ONSTACK);
	EXPECT_EQ(sigaltstack(NULL, &now), 0);
	EXPECT(now.ss_sp == alternate);
	EXPECT_EQ(now.ss_flags, flags);
}

static void *looks(void *arg)
{
	stack_t bad = { .ss_flags = SS_DISABLE | SS_ONSTACK };

	take_alternate();
	signalled_with(0);
	signalled_with(AUTODISARM);
	signalled_with(0);
	EXPECT_EQ(sigaltstack(&bad, NULL), -1);
	EXPECT_EQ(errno, EINVAL);
	drop_alternate();
	return arg;
}

TEST(the_frame_of_a_handler_tells_the_thread_s_alternate_stack_and_brings_it_back)
{
	other = malloc(ALTERNATE);
	handle_full(SIGUSR1, looks_at_its_frame, SA_ONSTACK);
	on_thread(looks, NULL);
	looks(NULL);
	free(other);
}

/* ---- who looks back from a handler ---- */

enum { FRAMES = 30 };
static void *frames[FRAMES];
static int nframes;
static uintptr_t stopped_at;
static sigjmp_buf past_it;

static void looks_back(int sig, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;

	(void)sig;
	(void)info;
	stopped_at = (uintptr_t)uc->uc_mcontext.gregs[REG_RIP];
	nframes = backtrace(frames, FRAMES);
	siglongjmp(past_it, 1);
}

static void __attribute__((noipa)) touches(volatile int *at)
{
	*at = 1;
}

static void *is_looked_at(void *arg)
{
	static volatile int *volatile nowhere_at_all;

	for (int i = 0; i < 3; i++) {
		if (sigsetjmp(past_it, 1) == 0)
			touches(nowhere_at_all);
		/* The handler, the signal's own frame, and what it stopped. */
		EXPECT(nframes > 3);
		EXPECT_EQ((uintptr_t)frames[2], stopped_at);
		sched_yield();
	}
	return arg;
}

TEST(between_a_handler_and_what_it_stopped_is_one_frame)
{
	static char stack[65536];
	stack_t alt = { .ss_sp = stack, .ss_size = sizeof(stack) };
	struct sigaction act = { .sa_sigaction = looks_back, .sa_flags = SA_SIGINFO };

	/* It loads what it needs. */
	backtrace(frames, FRAMES);
	EXPECT_EQ(sigaction(SIGSEGV, &act, NULL), 0);
	on_thread(is_looked_at, NULL);
	is_looked_at(NULL);
	act.sa_flags |= SA_ONSTACK;
	EXPECT_EQ(sigaction(SIGSEGV, &act, NULL), 0);
	EXPECT_EQ(sigaltstack(&alt, NULL), 0);
	is_looked_at(NULL);
}
