/* When the kernel refuses: memory, kernel threads, pollers. Each call fails as its header
 * says, nothing is lost or left behind, and all is well once the kernel gives again.
 *
 * Only debug builds can be made to fail (core/debug/fault.h). */
#include "fault.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host.h"
#include "netpoll.h"
#include "sched.h"
#include "syscall.h"

enum {
	KIB = 1024,
	MIB = 1024 * KIB,
	MS = 1000 * 1000,
	SECOND = 1000 * MS,
	MONO = 1,
	ENOMEM_ = 12,
	EVERY_CALL = 10000, /* more than there are */
};

/* NULL where the build has none. */
extern ATOMIC(int32_t) fault_after[FAULT_KINDS] __attribute__((weak, visibility("hidden")));

static bool can_fail(void)
{
	if (!fault_after)
		skipped("no fault injection");
	return fault_after != NULL;
}

static void fail_after(enum faultkind kind, int32_t calls)
{
	st_sc(&fault_after[kind], calls);
}

static void fail_no_more(enum faultkind kind)
{
	st_sc(&fault_after[kind], -1);
}

/* ---- what a process has ---- */

/* Bytes mapped, but for the main stack, which grows as it likes; a sanitizer's runtime maps
 * as it likes too. */
static uint64_t mapped(void)
{
	static char text[256 * KIB];
	uint64_t sum = 0;

	if (!can_preempt())
		return 0;
	EXPECT(os_readfile("/proc/self/maps", text, sizeof(text)) > 0);
	for (char *line = text; *line; line = strchr(line, '\n') + 1) {
		char *end;
		uint64_t lo = strtoull(line, &end, 16), hi = strtoull(end + 1, NULL, 16);
		size_t len = (size_t)(strchr(line, '\n') - line);
		if (!memmem(line, len, "[stack]", 7))
			sum += hi - lo;
	}
	return sum;
}

static int threads(void)
{
	char text[2048];
	const char *at;

	EXPECT(os_readfile("/proc/self/status", text, sizeof(text)) > 0);
	at = strstr(text, "Threads:");
	return at ? atoi(at + 8) : 0;
}

static int open_fds(void)
{
	int n = 0;

	for (int fd = 0; fd < 70000; fd++)
		n += arch_syscall3(__NR_fcntl, fd, 1, 0) >= 0;
	return n;
}

/* ---- core_init ---- */

static struct group grp;

static void end_at_once(void *arg)
{
	(void)arg;
	group_done(&grp);
}

static void core_works(void)
{
	grp.left = 100;
	for (int i = 0; i < 100; i++)
		go(end_at_once, NULL);
	group_wait(&grp);
}

/* What core_init touches of a thread. */
struct thread_state {
	stack_t alt;
	sigset_t mask;
	int threads;
};

static struct thread_state thread_state(void)
{
	struct thread_state s;

	memset(&s, 0, sizeof(s));
	EXPECT_EQ(sigaltstack(NULL, &s.alt), 0);
	EXPECT_EQ(sigprocmask(SIG_BLOCK, NULL, &s.mask), 0);
	s.threads = threads();
	return s;
}

static void caller_is_a_plain_thread_as(const struct thread_state *before)
{
	struct thread_state now = thread_state();

	EXPECT(getg() == NULL);
	EXPECT_EQ(now.threads, before->threads);
	EXPECT(now.alt.ss_sp == before->alt.ss_sp);
	EXPECT_EQ(now.alt.ss_flags, before->alt.ss_flags);
	for (int sig = 1; sig < 32; sig++)
		EXPECT_EQ(sigismember(&now.mask, sig), sigismember(&before->mask, sig));
}

static int init_failing_after(struct core_config *config, enum faultkind kind, int32_t calls)
{
	struct thread_state before = thread_state();
	int r;

	fail_after(kind, calls);
	r = core_init(config);
	fail_no_more(kind);
	EXPECT(r == 0 || r == -ENOMEM_);
	if (r < 0)
		caller_is_a_plain_thread_as(&before);
	return r;
}

/* core_init with its k-th call failing, for each k, until there are no so many. Returns how
 * many there are. */
static int32_t init_fails_at_each_call(enum faultkind kind)
{
	struct core_config config;
	uint64_t before, last;
	int32_t k;

	configure(&config, 3);
	before = mapped();
	for (k = 0; k < EVERY_CALL; k++) {
		/* A plot or two stay, for the next attempt; but they are used by it. */
		for (int i = 0; i < 4; i++) {
			last = mapped();
			if (init_failing_after(&config, kind, k) == 0)
				goto up;
		}
		EXPECT_EQ(mapped(), last);
		EXPECT(mapped() - before < 512 * KIB);
	}
up:
	core_works();
	return k;
}

TEST(core_init_survives_each_refusal_of_memory)
{
	if (can_fail())
		EXPECT(init_fails_at_each_call(FAULT_MMAP) > 5);
}

TEST(core_init_survives_each_refusal_of_a_guard)
{
	if (can_fail())
		EXPECT(init_fails_at_each_call(FAULT_GUARD) >= 4);
}

TEST(core_init_survives_the_refusal_of_a_thread)
{
	if (can_fail())
		EXPECT_EQ(init_fails_at_each_call(FAULT_CLONE), 1);
}

/* ---- kernel threads ---- */

enum { PS = 4 };

static ATOMIC(uint32_t) met, ran;

static void meet(uint32_t n)
{
	uint32_t until = (add_sc(&met, 1) / n + 1) * n;

	for (int i = 0; ld_sc(&met) < until; i++)
		if (i > 100)
			os_yield();
}

static void run_at_once(void *arg)
{
	(void)arg;
	meet(PS);
	group_done(&grp);
}

/* All Ps but the caller's are idle, and nobody is counted as searching. */
static void counts_are_whole(int procs)
{
	while (ld_sc(&sched.npidle) != procs - 1 || ld_sc(&sched.nmspinning) != 0)
		os_yield();
	hold(&sched.lock);
	EXPECT_EQ(sched.runqsize, 0);
	let_go(&sched.lock);
}

TEST(without_new_threads_those_there_are_do_the_work)
{
	int32_t ms;

	if (!can_fail())
		return;
	start_with(PS, without_sysmon);
	fail_after(FAULT_CLONE, 0);
	ms = sched.mcount;
	for (int i = 0; i < 20; i++)
		core_works();
	counts_are_whole(PS);
	EXPECT_EQ(sched.mcount, ms);
	fail_no_more(FAULT_CLONE);
	grp.left = PS - 1;
	for (int i = 0; i < PS - 1; i++)
		go(run_at_once, NULL);
	meet(PS);
	group_wait(&grp);
	counts_are_whole(PS);
	/* One that is about to sleep is not found yet by who wants one more. */
	EXPECT(sched.mcount >= ms + PS - 1 && sched.mcount <= ms + 2 * (PS - 1));
}

TEST(without_memory_for_new_threads_those_there_are_do_the_work)
{
	if (!can_fail())
		return;
	start_with(1, without_sysmon);
	/* Gs to be used again, all on the P of the only thread. */
	core_works();
	fail_after(FAULT_CLONE, 0);
	EXPECT_EQ(core_setprocs(PS), 0);
	fail_no_more(FAULT_CLONE);
	fail_after(FAULT_MMAP, 0);
	for (int i = 0; i < 20; i++)
		core_works();
	counts_are_whole(PS);
	EXPECT_EQ(sched.mcount, 2);
	fail_no_more(FAULT_MMAP);
	core_works();
}

static void few_threads(struct core_config *config)
{
	config->maxmcount = 3;
}

TEST(more_threads_than_are_allowed_are_not_made)
{
	start_with(PS, few_threads);
	for (int i = 0; i < 20; i++)
		core_works();
	counts_are_whole(PS);
	EXPECT(sched.mcount <= 3);
}

static int pipefd[2];

static void count_up(void *arg)
{
	(void)arg;
	add_sc(&ran, 1);
	group_done(&grp);
}

/* A call that gives its P, with a queue, to an M that cannot be had. */
static void block_before_a_queue(void)
{
	char c;

	grp.left = 10;
	for (int i = 0; i < 10; i++)
		go(count_up, NULL);
	entersyscall();
	EXPECT_EQ(arch_syscall3(__NR_read, pipefd[0], (long)&c, 1), 1);
	exitsyscall();
}

/* Some may have run before the call, if a slice ended meanwhile; the rest cannot now. */
static void until_given_up(struct g *caller)
{
	while (ld_acq(&caller->status) != GSYSCALLNOP || ld_sc(&sched.npidle) != 1)
		os_yield();
	EXPECT_EQ(ld_sc(&sched.runqsize) + (int32_t)ld_sc(&ran), 10);
}

static void *end_the_call(void *arg)
{
	until_given_up(arg);
	EXPECT_EQ(write(pipefd[1], "x", 1), 1);
	return NULL;
}

TEST(a_failed_hand_over_loses_no_g)
{
	pthread_t thread;

	if (!can_fail())
		return;
	EXPECT_EQ(pipe(pipefd), 0);
	start_with(1, without_preemption);
	fail_after(FAULT_CLONE, 0);
	pthread_create(&thread, NULL, end_the_call, getg());
	block_before_a_queue();
	group_wait(&grp);
	pthread_join(thread, NULL);
}

static void *give_threads_again(void *arg)
{
	until_given_up(arg);
	fail_no_more(FAULT_CLONE);
	/* By sysmon, for there is no other thread of the core that runs. */
	while (ld_sc(&ran) != 10)
		os_yield();
	EXPECT_EQ(write(pipefd[1], "x", 1), 1);
	return NULL;
}

TEST(sysmon_starts_what_was_left_when_threads_can_be_had_again)
{
	pthread_t thread;

	if (!can_fail())
		return;
	EXPECT_EQ(pipe(pipefd), 0);
	start_with(1, without_preemption);
	fail_after(FAULT_CLONE, 0);
	pthread_create(&thread, NULL, give_threads_again, getg());
	block_before_a_queue();
	group_wait(&grp);
	pthread_join(thread, NULL);
}

/* ---- Gs ---- */

static int count_gs(void)
{
	int n = 0;

	for (struct g *gp = ld_acq(&sched.allg); gp; gp = gp->alllink)
		n++;
	return n;
}

/* Of sizes that no stack at hand has. */
static void newproc_fails(enum faultkind kind)
{
	uint64_t before = 0;
	int gs = 0;

	fail_after(kind, 0);
	for (size_t i = 0; i < 300; i++) {
		EXPECT_EQ(newproc(end_at_once, NULL, (i + 2) * MIB, NULL), -ENOMEM_);
		/* The first takes what the next ones fail with. */
		if (i == 0) {
			gs = count_gs();
			before = mapped();
		}
	}
	EXPECT_EQ(count_gs(), gs);
	EXPECT_EQ(mapped(), before);
	fail_no_more(kind);
	grp.left = 1;
	EXPECT_EQ(newproc(end_at_once, NULL, 2 * MIB, NULL), 0);
	group_wait(&grp);
	core_works();
}

TEST(newproc_fails_for_want_of_memory_and_keeps_nothing)
{
	if (!can_fail())
		return;
	start(2);
	core_works();
	newproc_fails(FAULT_MMAP);
}

static void *newproc_fails_foreign(void *arg)
{
	(void)arg;
	fail_after(FAULT_MMAP, 0);
	for (size_t i = 0; i < 300; i++)
		EXPECT_EQ(newproc(end_at_once, NULL, (i + 2) * MIB, NULL), -ENOMEM_);
	fail_no_more(FAULT_MMAP);
	EXPECT_EQ(newproc(end_at_once, NULL, SMALL_STACK, NULL), 0);
	return NULL;
}

TEST(newproc_fails_on_a_foreign_thread_too)
{
	pthread_t thread;
	int gs;

	if (!can_fail())
		return;
	start(2);
	gs = count_gs();
	grp.left = 1;
	pthread_create(&thread, NULL, newproc_fails_foreign, NULL);
	group_wait(&grp);
	pthread_join(thread, NULL);
	EXPECT_EQ(count_gs(), gs + 1);
}

TEST(newproc_fails_for_want_of_a_guard)
{
	if (!can_fail())
		return;
	start(2);
	core_works();
	fail_after(FAULT_GUARD, 0);
	EXPECT_EQ(newproc(end_at_once, NULL, 5 * MIB, NULL), -ENOMEM_);
	EXPECT_EQ(newproc(end_at_once, NULL, 5 * MIB, NULL), -ENOMEM_);
	fail_no_more(FAULT_GUARD);
	grp.left = 1;
	EXPECT_EQ(newproc(end_at_once, NULL, 5 * MIB, NULL), 0);
	group_wait(&grp);
	core_works();
}

/* ---- timers ---- */

enum { HEAP = 512 }; /* what a heap begins with */

static ATOMIC(uint32_t) word;

static uint32_t timers_of(int p)
{
	struct timers *ts = &sched.allp[p]->timers;
	uint32_t n;

	hold(&ts->lock);
	n = ts->n;
	let_go(&ts->lock);
	return n;
}

static void wait_long(void *arg)
{
	struct deadline d = { MONO, now_ns() + 1000ull * SECOND };

	(void)arg;
	EXPECT_EQ(futex_wait(&word, 0, (uint32_t)FUTEX_ANY, &d, 0), 0);
	group_done(&grp);
}

static void fill_the_heap(void)
{
	grp.left = HEAP;
	for (int i = 0; i < HEAP; i++)
		go(wait_long, NULL);
	while (timers_of(0) != HEAP)
		gosched();
}

static void empty_the_heap(void)
{
	EXPECT_EQ(futex_wake(&word, FUTEX_ANY, (uint32_t)FUTEX_ANY, 0), HEAP);
	group_wait(&grp);
	EXPECT_EQ(timers_of(0), 0);
}

TEST(a_wait_that_finds_no_room_for_its_timer_fails)
{
	struct deadline d = { MONO, 0 };
	static ATOMIC(uint32_t) other;

	if (!can_fail())
		return;
	start_with(1, without_sysmon);
	fill_the_heap();
	fail_after(FAULT_MMAP, 0);
	d.at = now_ns() + 1000ull * SECOND;
	EXPECT_EQ(futex_wait(&other, 0, (uint32_t)FUTEX_ANY, &d, 0), -ENOMEM_);
	EXPECT_EQ(futex_wake(&other, 1, (uint32_t)FUTEX_ANY, 0), 0);
	EXPECT_EQ(gosleep(MONO, now_ns() + 1000ull * SECOND), -ENOMEM_);
	EXPECT_EQ(timers_of(0), HEAP);
	fail_no_more(FAULT_MMAP);
	sleep_ns(MS);
	empty_the_heap();
}

/* ---- the number of Ps ---- */

TEST(setprocs_fails_for_want_of_memory_and_changes_nothing)
{
	if (!can_fail())
		return;
	start(2);
	for (int32_t calls = 0; calls < 6; calls++) {
		fail_after(FAULT_MMAP, calls);
		EXPECT_EQ(core_setprocs(MAX_PROCS), -ENOMEM_);
		fail_no_more(FAULT_MMAP);
		EXPECT_EQ(core_procs(), 2);
		core_works();
		counts_are_whole(2);
	}
	EXPECT_EQ(core_setprocs(8), 0);
	EXPECT_EQ(core_procs(), 8);
	core_works();
}

static void wait_long_on_each_p(void *arg)
{
	/* Here, while all others do the same on theirs. */
	meet(2);
	wait_long(arg);
}

TEST(setprocs_without_room_for_the_timers_of_dead_ps_changes_nothing)
{
	uint32_t ended;

	if (!can_fail())
		return;
	start_with(2, without_preemption);
	grp.left = 4 * HEAP;
	for (int i = 0; i < 4 * HEAP; i++)
		go(wait_long_on_each_p, NULL);
	/* Asleep, for a P that is idle is where the other half of a pair comes from. */
	while (timers_of(0) + timers_of(1) != 4 * HEAP)
		sleep_ns(MS);
	ended = timers_of(1);
	EXPECT(ended > 0);
	fail_after(FAULT_MMAP, 0);
	if (core_setprocs(1) != 0) {
		EXPECT_EQ(core_procs(), 2);
		EXPECT_EQ(timers_of(1), ended);
	}
	fail_no_more(FAULT_MMAP);
	EXPECT_EQ(core_setprocs(1), 0);
	EXPECT_EQ(timers_of(0), 4 * HEAP);
	EXPECT_EQ(futex_wake(&word, FUTEX_ANY, (uint32_t)FUTEX_ANY, 0), 4 * HEAP);
	group_wait(&grp);
}

/* ---- the poller ---- */

static void read_when_ready(void *arg)
{
	char c;

	(void)arg;
	for (;;) {
		uint32_t ticket = netpoll_ticket(pipefd[0], POLL_READ);
		if (arch_syscall3(__NR_read, pipefd[0], (long)&c, 1) == 1)
			break;
		EXPECT_EQ(netpoll_wait(pipefd[0], POLL_READ, ticket, NULL), 0);
	}
	group_done(&grp);
}

TEST(a_wait_for_a_descriptor_fails_without_a_poller)
{
	int fds;

	if (!can_fail())
		return;
	start(2);
	EXPECT_EQ(pipe2(pipefd, O_NONBLOCK), 0);
	fds = open_fds();
	for (int32_t calls = 0; calls < 2; calls++) {
		fail_after(FAULT_EPOLL, calls);
		EXPECT_EQ(netpoll_wait(pipefd[0], POLL_READ, netpoll_ticket(pipefd[0], POLL_READ),
				       NULL),
			  -ENOMEM_);
		EXPECT_EQ(open_fds(), fds);
	}
	fail_no_more(FAULT_EPOLL);
	grp.left = 1;
	until_waiting(go(read_when_ready, NULL));
	EXPECT_EQ(arch_syscall3(__NR_write, pipefd[1], (long)"x", 1), 1);
	group_wait(&grp);
}

TEST(a_wait_for_a_descriptor_fails_without_memory)
{
	int fd;

	if (!can_fail())
		return;
	start(2);
	EXPECT_EQ(pipe2(pipefd, O_NONBLOCK), 0);
	fd = pipefd[0];
	fail_after(FAULT_MMAP, 0);
	EXPECT_EQ(netpoll_wait(fd, POLL_READ, netpoll_ticket(fd, POLL_READ), NULL), -ENOMEM_);
	fail_no_more(FAULT_MMAP);
	grp.left = 1;
	until_waiting(go(read_when_ready, NULL));
	EXPECT_EQ(arch_syscall3(__NR_write, pipefd[1], (long)"x", 1), 1);
	group_wait(&grp);
}
