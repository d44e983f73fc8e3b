/* Stacks: reuse, guards, what they cost the kernel, and running out. System calls are
 * forbidden or made to fail by seccomp filters, so the tests see what the kernel sees. */
#include "stack.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../test.h"
#include "os.h"

enum {
	PAGE = 4096,
	KIB = 1024,
	MIB = 1024 * 1024,
	GUARD_INSTALL = 102, /* MADV_GUARD_INSTALL */
};

static uint64_t rng;

static uint64_t draw(uint64_t below)
{
	rng = rng * 6364136223846793005u + 1442695040888963407u;
	return (rng >> 33) % below;
}

/* A figure of /proc/self/status, as "VmPTE:", in KiB. */
static long status_kib(const char *name)
{
	char line[256];
	long kib = -1;
	FILE *f = fopen("/proc/self/status", "r");

	while (f && fgets(line, sizeof(line), f))
		if (strncmp(line, name, strlen(name)) == 0)
			kib = atol(line + strlen(name));
	if (f)
		fclose(f);
	EXPECT(kib >= 0);
	return kib;
}

static long count_maps(void)
{
	long lines = 0;
	int c;
	FILE *f = fopen("/proc/self/maps", "r");

	while (f && (c = getc(f)) != EOF)
		lines += c == '\n';
	if (f)
		fclose(f);
	return lines;
}

static bool kernel_has_guards(void)
{
	char *at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bool has = madvise(at, PAGE, GUARD_INSTALL) == 0;

	munmap(at, PAGE);
	if (!has)
		test_say("  this kernel has no MADV_GUARD_INSTALL");
	return has;
}

/* The signal that a write to at ends a process with; 0: none. */
static int write_signal(uintptr_t at)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		signal(SIGSEGV, SIG_DFL);
		*(volatile char *)at = 1;
		_exit(0);
	}
	EXPECT(waitpid(pid, &status, 0) == pid);
	return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void filter_install(struct sock_filter *filter, unsigned short len)
{
	struct sock_fprog prog = { len, filter };

	EXPECT_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	EXPECT_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog), 0);
}

/* From here on the process can do no more than report and end. */
static void forbid_system_calls(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	filter_install(filter, sizeof(filter) / sizeof(filter[0]));
}

/* From here on MADV_GUARD_INSTALL fails as on a kernel that does not know it. */
static void forbid_guard_markers(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, GUARD_INSTALL, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	filter_install(filter, sizeof(filter) / sizeof(filter[0]));
}

TEST(a_freed_stack_comes_first_and_without_a_system_call)
{
	struct stack a, b, c, again;

	EXPECT_EQ(stackalloc(&a, 8 * MIB, PAGE), 0);
	EXPECT_EQ(stackalloc(&b, 8 * MIB, PAGE), 0);
	EXPECT_EQ(stackalloc(&c, 64 * KIB, PAGE), 0);
	stackfree(&c);
	stackfree(&a);
	stackfree(&b);
	forbid_system_calls();
	for (int i = 0; i < 1000; i++) {
		EXPECT_EQ(stackalloc(&again, 8 * MIB, PAGE), 0);
		EXPECT_EQ(again.lo, b.lo);
		EXPECT_EQ(again.hi, b.hi);
		stackfree(&again);
	}
	EXPECT_EQ(stackalloc(&b, 8 * MIB, PAGE), 0);
	EXPECT_EQ(stackalloc(&again, 8 * MIB, PAGE), 0);
	EXPECT_EQ(again.lo, a.lo);
}

TEST(a_stack_is_usable_from_lo_to_hi_and_aligned)
{
	static const size_t sizes[] = { 1,	16,	 PAGE,	 16 * KIB, 16 * KIB + 1,
					100000, 2 * MIB, 8 * MIB };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		for (int k = 0; k < 40; k++) {
			struct stack st;
			EXPECT_EQ(stackalloc(&st, sizes[i], PAGE), 0);
			EXPECT(st.hi - st.lo >= sizes[i]);
			EXPECT_EQ(st.lo % PAGE, 0);
			EXPECT_EQ(st.hi % 16, 0);
			*(volatile char *)st.lo = 1;
			*(volatile char *)(st.hi - 1) = 1;
		}
}

TEST(a_size_is_enlarged_by_an_eighth_at_most)
{
	for (size_t size = 64 * KIB; size < 64 * MIB; size += size / 5 + 1) {
		struct stack st;
		EXPECT_EQ(stackalloc(&st, size, 0), 0);
		EXPECT(st.hi - st.lo <= size + size / 8 + 2 * PAGE);
	}
}

TEST(a_write_below_lo_faults)
{
	struct stack st[20];

	/* The first of an arena, the last, one with neighbours. */
	for (int i = 0; i < 20; i++)
		EXPECT_EQ(stackalloc(&st[i], 8 * MIB, PAGE), 0);
	for (int i = 0; i < 20; i++) {
		EXPECT_EQ(write_signal(st[i].lo), 0);
		EXPECT_EQ(write_signal(st[i].lo - 1), SIGSEGV);
		EXPECT_EQ(write_signal(st[i].lo - PAGE), SIGSEGV);
	}
}

TEST(a_guard_is_as_large_as_asked)
{
	static const size_t guards[] = {
		1, PAGE, 5 * PAGE, 64 * KIB, 300 * KIB, 3 * MIB, 64 * MIB
	};

	for (size_t i = 0; i < sizeof(guards) / sizeof(guards[0]); i++)
		for (int k = 0; k < 3; k++) {
			struct stack st;
			EXPECT_EQ(stackalloc(&st, (size_t)1 << (14 + 4 * k), guards[i]), 0);
			EXPECT_EQ(write_signal(st.lo), 0);
			EXPECT_EQ(write_signal(st.lo - 1), SIGSEGV);
			EXPECT_EQ(write_signal(st.lo - guards[i]), SIGSEGV);
		}
}

TEST(no_guard_is_asked_of_the_kernel_for_a_guard_of_zero)
{
	struct stack a, b;

	EXPECT_EQ(stackalloc(&a, 64 * KIB, 0), 0);
	forbid_system_calls();
	EXPECT_EQ(stackalloc(&b, 64 * KIB, 0), 0);
	/* What lies below b is the top of a. */
	EXPECT(b.lo >= a.hi && b.lo - a.hi < KIB);
	*(volatile char *)(b.lo - 1) = 1;
}

TEST(a_stack_with_a_guard_is_never_one_that_was_freed_without)
{
	struct stack bare, st;

	EXPECT_EQ(stackalloc(&bare, 64 * KIB, 0), 0);
	stackfree(&bare);
	for (int i = 0; i < 50; i++) {
		EXPECT_EQ(stackalloc(&st, 60 * KIB, PAGE), 0);
		EXPECT(st.lo != bare.lo);
	}
	EXPECT_EQ(write_signal(st.lo - 1), SIGSEGV);
}

TEST(the_guard_outlives_reuse_and_scavenging)
{
	struct stack st;

	EXPECT_EQ(stackalloc(&st, 8 * MIB, PAGE), 0);
	for (int i = 0; i < 3; i++) {
		memset((void *)(st.hi - 256 * KIB), 1, 256 * KIB);
		memset((void *)st.lo, 1, 256 * KIB);
		stackscavenge(&st, 0);
		stackfree(&st);
		EXPECT_EQ(write_signal(st.lo - 1), SIGSEGV);
		EXPECT_EQ(stackalloc(&st, 8 * MIB, PAGE), 0);
	}
}

TEST(a_scavenged_stack_reads_zero_but_for_its_hot_top)
{
	struct stack st;
	unsigned char resident[8 * MIB / PAGE + 1024];

	/* The second of an arena: its hi is not at the end of a page. */
	EXPECT_EQ(stackalloc(&st, 8 * MIB, PAGE), 0);
	EXPECT_EQ(stackalloc(&st, 8 * MIB, PAGE), 0);
	EXPECT(st.hi % PAGE != 0);
	memset((void *)st.lo, 7, st.hi - st.lo);
	stackscavenge(&st, 0);
	stackfree(&st);

	uintptr_t top = (st.hi + PAGE - 1) / PAGE * PAGE, hot = top - 8 * KIB;
	size_t in = 0;
	EXPECT_EQ(mincore((void *)st.lo, top - st.lo, resident), 0);
	for (size_t i = 0; i < (top - st.lo) / PAGE; i++)
		in += resident[i] & 1;
	EXPECT_EQ(in, 2);
	for (uintptr_t at = st.lo; at < hot; at += 8)
		EXPECT_EQ(*(uint64_t *)at, 0);
	for (uintptr_t at = hot; at < st.hi; at++)
		EXPECT_EQ(*(char *)at, 7);
}

TEST(a_stack_smaller_than_its_hot_top_is_not_scavenged)
{
	struct stack st;

	EXPECT_EQ(stackalloc(&st, PAGE, PAGE), 0);
	memset((void *)st.lo, 7, st.hi - st.lo);
	stackscavenge(&st, 0);
	for (uintptr_t at = st.lo; at < st.hi; at++)
		EXPECT_EQ(*(char *)at, 7);
}

TEST(discarding_a_guard_keeps_it)
{
	char *at = os_reserve(4 * PAGE);

	EXPECT(!os_failed(at));
	EXPECT_EQ(os_guard(at + PAGE, PAGE), 0);
	os_discard(at, 4 * PAGE);
	EXPECT_EQ(write_signal((uintptr_t)at), 0);
	EXPECT_EQ(write_signal((uintptr_t)at + PAGE), SIGSEGV);
	EXPECT_EQ(write_signal((uintptr_t)at + 2 * PAGE), 0);
}

TEST(the_tops_of_stacks_are_spread_over_sixteen_cache_lines)
{
	int lines[PAGE / 64] = { 0 };
	struct stack st, last = { 0, 0 };

	for (int i = 0; i < 1600; i++) {
		EXPECT_EQ(stackalloc(&st, 8 * MIB, PAGE), 0);
		if (st.lo - PAGE - last.hi < PAGE)
			EXPECT(st.hi % PAGE != last.hi % PAGE);
		lines[st.hi % PAGE / 64]++;
		last = st;
	}
	for (int i = 0; i < PAGE / 64; i++)
		if (i == 0 || i >= PAGE / 64 - 15)
			EXPECT(lines[i] > 80 && lines[i] < 120);
		else
			EXPECT_EQ(lines[i], 0);
}

/* What n stacks of that size cost in page tables, in bytes each, if they are touched at the
 * top and as far below it as depth. */
static long table_cost(size_t n, size_t size, size_t guard, size_t depth)
{
	long before = status_kib("VmPTE:");

	for (size_t i = 0; i < n; i++) {
		struct stack st;
		EXPECT_EQ(stackalloc(&st, size, guard), 0);
		*(volatile char *)(st.hi - 1) = 1;
		*(volatile char *)(st.hi - depth) = 1;
	}
	return (status_kib("VmPTE:") - before) * KIB / (long)n;
}

TEST_IN(120, a_hundred_thousand_8_mib_stacks_cost_one_page_of_page_table_each)
{
	if (!kernel_has_guards())
		return;
	long maps = count_maps();
	long cost = table_cost(100000, 8 * MIB, PAGE, 1);

	/* 4096 is the page; the level above it is one page for 1 GiB, or 36 bytes a stack. */
	EXPECT(cost <= 4200);
	EXPECT(count_maps() - maps < 200);
	EXPECT(stackmapped() >= (size_t)100000 * 8 * MIB);
	EXPECT(stackmapped() < (size_t)100000 * 8 * MIB * 3 / 2);
}

TEST(any_large_size_and_guard_costs_one_page_of_page_table)
{
	if (!kernel_has_guards())
		return;
	/* Sizes whose strides are multiples of 2 MiB, and of less; a guard that is the rest of
	 * one. A few pages of the growth of arenas are the difference to 4096. */
	EXPECT(table_cost(2000, 8 * MIB - 8 * KIB, PAGE, 64 * KIB) <= 4400);
	EXPECT(table_cost(2000, 8 * MIB + 16 * KIB, PAGE, 64 * KIB) <= 4400);
	EXPECT(table_cost(2000, 2 * MIB, PAGE, 64 * KIB) <= 4400);
	EXPECT(table_cost(2000, 4 * MIB, 64 * KIB, 64 * KIB) <= 4400);
	EXPECT(table_cost(2000, 2 * MIB + 300 * KIB, 2 * PAGE, 64 * KIB) <= 4400);
	EXPECT(table_cost(1000, 64 * MIB, 128 * KIB, 64 * KIB) <= 4600);
	EXPECT(table_cost(2000, 64 * KIB, PAGE, 64 * KIB) <= 400);
}

TEST(a_million_8_mib_stacks_have_room)
{
	long maps = count_maps(), kib = status_kib("VmRSS:");
	struct stack st = { 0, 0 };

	/* Without guards and untouched, so that the test is one of address space alone. */
	for (int i = 0; i < 1000000; i++)
		EXPECT_EQ(stackalloc(&st, 8 * MIB, 0), 0);
	*(volatile char *)st.lo = 1;
	EXPECT(count_maps() - maps < 200);
	EXPECT(status_kib("VmRSS:") - kib < 32 * KIB);
}

TEST(sizes_that_cannot_be_are_refused)
{
	struct stack st;
	size_t mapped = stackmapped();

	EXPECT_EQ(stackalloc(&st, SIZE_MAX, PAGE), -EINVAL);
	EXPECT_EQ(stackalloc(&st, SIZE_MAX - PAGE + 1, PAGE), -EINVAL);
	EXPECT_EQ(stackalloc(&st, 64 * KIB, SIZE_MAX), -EINVAL);
	EXPECT_EQ(stackalloc(&st, SIZE_MAX, SIZE_MAX), -EINVAL);
	EXPECT_EQ(stackalloc(&st, (size_t)1 << 63, (size_t)1 << 63), -EINVAL);
	EXPECT_EQ(stackalloc(&st, 0, PAGE), -EINVAL);
	EXPECT_EQ(stackmapped(), mapped);
}

TEST(a_size_that_could_be_but_is_not_to_be_had_is_no_memory)
{
	struct stack st;
	size_t mapped = stackmapped();

	/* 64 TiB, of which an address space of 128 may hold one. */
	EXPECT_EQ(stackalloc(&st, (size_t)1 << 46, (size_t)1 << 46), -ENOMEM);
	EXPECT_EQ(stackmapped(), mapped);
	EXPECT_EQ(stackalloc(&st, 8 * MIB, PAGE), 0);
}

static size_t alloc_all(struct stack *st, size_t max, size_t size)
{
	size_t n = 0;
	int r = 0;

	while (n < max && (r = stackalloc(&st[n], size, PAGE)) == 0)
		n++;
	EXPECT_EQ(r, -ENOMEM);
	return n;
}

TEST(a_limited_address_space_is_used_up_and_nothing_is_lost)
{
	static struct stack st[1000];
	struct rlimit limit;

	limit.rlim_cur = limit.rlim_max = (rlim_t)(status_kib("VmSize:") * KIB) + 350 * MIB;
	EXPECT_EQ(setrlimit(RLIMIT_AS, &limit), 0);

	/* 38 of 9 MiB would fit. An arena's alignment costs 1 MiB, and there are few arenas; the
	 * last ones are smaller than the 8 slots that arenas begin with. */
	size_t n = alloc_all(st, 1000, 8 * MIB);
	EXPECT(n >= 36);
	long size = status_kib("VmSize:");
	size_t mapped = stackmapped();
	for (int i = 0; i < 1000; i++)
		EXPECT_EQ(stackalloc(&st[n], 8 * MIB, PAGE), -ENOMEM);
	EXPECT_EQ(status_kib("VmSize:"), size);

	for (size_t i = 0; i < n; i++)
		stackfree(&st[i]);
	EXPECT_EQ(alloc_all(st, 1000, 8 * MIB), n);
	EXPECT_EQ(stackmapped(), mapped);

	/* What is too little for a large stack still serves small ones. */
	EXPECT_EQ(stackalloc(&st[n], 64 * KIB, PAGE), 0);
	*(volatile char *)st[n].lo = 1;
	EXPECT_EQ(write_signal(st[n].lo - 1), SIGSEGV);
}

TEST_IN(60, where_guards_are_mappings_their_limit_is_no_memory_and_nothing_is_lost)
{
	enum { MAX = 100000, SPARE = 200 };
	struct stack *st = calloc(MAX, sizeof(*st));
	char text[32] = "";

	EXPECT(st && os_readfile("/proc/sys/vm/max_map_count", text, sizeof(text)) > 0);
	if (atol(text) > MAX) {
		test_say("  max_map_count is %s: too many to use up", text);
		return;
	}
	forbid_guard_markers();
	char *spare = mmap(NULL, SPARE * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (int i = 0; i < SPARE; i += 2)
		EXPECT_EQ(mprotect(spare + i * PAGE, PAGE, PROT_NONE), 0);

	size_t n = alloc_all(st, MAX, 64 * KIB), mapped = stackmapped();
	EXPECT(n > (size_t)atol(text) / 2 - SPARE - 200);
	/* If a failure lost its slot, there would have to be new arenas. */
	for (int i = 0; i < 20000; i++)
		EXPECT_EQ(stackalloc(&st[n], 64 * KIB, PAGE), -ENOMEM);
	EXPECT_EQ(stackmapped(), mapped);

	stackscavenge(&st[n / 2], 0);
	stackfree(&st[n / 2]);
	EXPECT_EQ(stackalloc(&st[n / 2], 64 * KIB, PAGE), 0);

	EXPECT_EQ(munmap(spare, SPARE * PAGE), 0);
	EXPECT_EQ(stackalloc(&st[n], 64 * KIB, PAGE), 0);
	EXPECT_EQ(stackmapped(), mapped);
	for (size_t i = 0; i <= n; i += n / 4) {
		EXPECT_EQ(write_signal(st[i].lo), 0);
		EXPECT_EQ(write_signal(st[i].lo - 1), SIGSEGV);
	}
}

static int free_signal(const struct stack *st)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		close(2);
		stackfree(st);
		_exit(0);
	}
	EXPECT(waitpid(pid, &status, 0) == pid);
	return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

TEST(freeing_what_is_not_in_use_aborts)
{
	struct stack st, unknown = { 1 * MIB, 2 * MIB }, next;

	EXPECT_EQ(free_signal(&unknown), SIGABRT);
	EXPECT_EQ(stackalloc(&st, 64 * KIB, PAGE), 0);
	EXPECT_EQ(free_signal(&st), 0);
	next.lo = st.hi + PAGE;
	next.hi = next.lo + 64 * KIB;
	EXPECT_EQ(free_signal(&next), SIGABRT);
	stackfree(&st);
	EXPECT_EQ(free_signal(&st), SIGABRT);
}

struct live {
	struct stack st;
	size_t guard;
	uint64_t tag;
};

static void tag_write(struct live *l, uint64_t tag)
{
	l->tag = tag;
	*(uint64_t *)l->st.lo = tag;
	*(uint64_t *)(l->st.hi - 8) = tag;
}

static void tag_check(const struct live *l)
{
	EXPECT_EQ(*(uint64_t *)l->st.lo, l->tag);
	EXPECT_EQ(*(uint64_t *)(l->st.hi - 8), l->tag);
}

static void live_random(struct live *l)
{
	static const size_t guards[] = { 0, 0, 1, PAGE, PAGE, PAGE, 3 * PAGE, 64 * KIB };
	size_t size = ((size_t)1 << (4 + draw(21))) + draw(100000);

	l->guard = guards[draw(8)];
	EXPECT_EQ(stackalloc(&l->st, size, l->guard), 0);
	EXPECT(l->st.hi - l->st.lo >= size);
}

TEST(stacks_of_random_sizes_never_overlap)
{
	enum { LIVE = 300 };
	static struct live live[LIVE];

	rng = test_seed();
	for (int i = 0; i < 20000; i++) {
		struct live *l = &live[draw(LIVE)];
		if (l->st.hi) {
			tag_check(l);
			if (draw(8) == 0)
				stackscavenge(&l->st, 0);
			stackfree(&l->st);
			l->st.hi = 0;
			continue;
		}
		live_random(l);
		for (struct live *o = live; o < live + LIVE; o++)
			EXPECT(o == l || o->st.hi == 0 || o->st.hi <= l->st.lo - l->guard ||
			       l->st.hi <= o->st.lo - o->guard);
		tag_write(l, (uint64_t)i);
	}
}

static void *churn(void *arg)
{
	uint64_t me = (uint64_t)(uintptr_t)arg << 32;
	struct live live[8] = { 0 };

	for (uint64_t i = 0; i < 20000; i++) {
		struct live *l = &live[i * 2654435761u % 8];
		if (l->st.hi) {
			tag_check(l);
			stackfree(&l->st);
			l->st.hi = 0;
		} else {
			EXPECT_EQ(stackalloc(&l->st, (size_t)(i % 3 + 1) * 64 * KIB, PAGE), 0);
			tag_write(l, me + i);
		}
	}
	return NULL;
}

TEST(threads_that_allocate_at_once_get_stacks_of_their_own)
{
	pthread_t thread[4];

	for (uintptr_t i = 0; i < 4; i++)
		EXPECT_EQ(pthread_create(&thread[i], NULL, churn, (void *)i), 0);
	for (int i = 0; i < 4; i++)
		EXPECT_EQ(pthread_join(thread[i], NULL), 0);
}
