/* The context switch by itself: what a context keeps, how a fresh one begins, where an
 * unwinder's walk over one ends. */
#include "context.h"

#include <sys/mman.h>
#include <unwind.h>

#include "host.h"
#include "sched.h"

enum { STACK = 64 * 1024, REGISTERS = 6 };

/* The sanitizers must be told of each switch; these tests make theirs behind their backs. */
static bool bare(void)
{
	if (!can_preempt())
		skipped("a sanitizer follows the stacks");
	return can_preempt();
}

static struct gobuf here, there;
static char stack[STACK] __attribute__((aligned(16)));

/* switch_with: loads rbx, rbp and r12 to r15 from in, switches, and stores into out what it
 * finds in them on return. */
void switch_with(struct gobuf *from, const struct gobuf *to, const uint64_t *in, uint64_t *out);
__asm__(".text\n"
	".type switch_with, @function\n"
	"switch_with:\n"
	"	push %rbx; push %rbp; push %r12; push %r13; push %r14; push %r15\n"
	"	push %rcx\n"
	"	mov (%rdx), %rbx\n"
	"	mov 8(%rdx), %rbp\n"
	"	mov 16(%rdx), %r12\n"
	"	mov 24(%rdx), %r13\n"
	"	mov 32(%rdx), %r14\n"
	"	mov 40(%rdx), %r15\n"
	"	call arch_switch\n"
	"	pop %rcx\n"
	"	mov %rbx, (%rcx)\n"
	"	mov %rbp, 8(%rcx)\n"
	"	mov %r12, 16(%rcx)\n"
	"	mov %r13, 24(%rcx)\n"
	"	mov %r14, 32(%rcx)\n"
	"	mov %r15, 40(%rcx)\n"
	"	pop %r15; pop %r14; pop %r13; pop %r12; pop %rbp; pop %rbx\n"
	"	ret\n"
	".size switch_with, . - switch_with\n");

static void fill(uint64_t *regs, uint64_t from)
{
	for (uint64_t i = 0; i < REGISTERS; i++)
		regs[i] = (from + i) * 0x9e3779b97f4a7c15u;
}

/* Switches with registers of its own, and finds them again, whatever the other side does. */
static void switch_and_compare(struct gobuf *from, const struct gobuf *to, uint64_t mark)
{
	uint64_t in[REGISTERS], out[REGISTERS];

	fill(in, mark);
	fill(out, 0);
	switch_with(from, to, in, out);
	for (int i = 0; i < REGISTERS; i++)
		EXPECT_EQ(out[i], in[i]);
}

static void other_side(void *arg)
{
	for (uint64_t i = 0;; i++)
		switch_and_compare(&there, &here, i * 2 + 1 + (uintptr_t)arg);
}

TEST(a_switch_keeps_the_callee_saved_registers)
{
	if (!bare())
		return;
	arch_context_init(&there, (uintptr_t)stack + STACK, other_side, (void *)1000);
	for (uint64_t i = 0; i < 1000; i++)
		switch_and_compare(&here, &there, i * 2);
}

static uint32_t mxcsr(void)
{
	uint32_t w;
	__asm__ volatile("stmxcsr %0" : "=m"(w));
	return w;
}

static uint16_t x87(void)
{
	uint16_t w;
	__asm__ volatile("fnstcw %0" : "=m"(w));
	return w;
}

static void control(uint32_t sse, uint16_t fp)
{
	__asm__ volatile("ldmxcsr %0\n\tfldcw %1" : : "m"(sse), "m"(fp));
}

enum {
	/* All exceptions masked; rounding to nearest, up, down, and to zero. */
	SSE_NEAREST = 0x1f80,
	SSE_DOWN = 0x3f80,
	SSE_UP = 0x5f80,
	X87_NEAREST = 0x37f,
	X87_DOWN = 0x77f,
	X87_SINGLE_ZERO = 0xc7f,
	DIVIDED_BY_ZERO = 1 << 2, /* in both */
};

static uint16_t x87_flags(void)
{
	uint16_t w;
	__asm__ volatile("fnstsw %0" : "=m"(w));
	return w & 0x3f;
}

static void divide_by_zero(void)
{
	volatile long double zero = 0, r;

	r = 1 / zero;
	(void)r;
}

static void round_otherwise(void *arg)
{
	(void)arg;
	/* A fresh context has its maker's. */
	EXPECT_EQ(mxcsr() & 0xffc0, SSE_DOWN);
	EXPECT_EQ(x87(), X87_DOWN);
	EXPECT_EQ(mxcsr() & 0x3f, DIVIDED_BY_ZERO);
	EXPECT_EQ(x87_flags(), DIVIDED_BY_ZERO);
	for (;;) {
		control(SSE_UP, X87_SINGLE_ZERO);
		arch_switch(&there, &here);
		EXPECT_EQ(mxcsr() & 0xffc0, SSE_UP);
		EXPECT_EQ(x87(), X87_SINGLE_ZERO);
	}
}

TEST(a_switch_keeps_the_sse_and_x87_control_words)
{
	if (!bare())
		return;
	control(SSE_DOWN | DIVIDED_BY_ZERO, X87_DOWN);
	divide_by_zero();
	arch_context_init(&there, (uintptr_t)stack + STACK, round_otherwise, NULL);
	for (int i = 0; i < 10; i++) {
		control(SSE_NEAREST, X87_NEAREST);
		arch_switch(&here, &there);
		EXPECT_EQ(mxcsr() & 0xffc0, SSE_NEAREST);
		EXPECT_EQ(x87(), X87_NEAREST);
	}
}

/* A raised exception that is unmasked is pending: the next instruction of the x87 traps, and nobody
 * else's. */
static void has_one_pending(void *arg)
{
	(void)arg;
	for (;;) {
		EXPECT_EQ(x87_flags(), DIVIDED_BY_ZERO);
		EXPECT_EQ(x87(), X87_NEAREST & ~DIVIDED_BY_ZERO);
		arch_switch(&there, &here);
	}
}

TEST(a_switch_leaves_a_pending_exception_pending)
{
	if (!bare())
		return;
	control(SSE_NEAREST, X87_NEAREST);
	divide_by_zero();
	arch_context_init(&there, (uintptr_t)stack + STACK, has_one_pending, NULL);
	((uint16_t *)there.sp)[2] = X87_NEAREST & ~DIVIDED_BY_ZERO;
	for (int i = 0; i < 10; i++) {
		arch_switch(&here, &there);
		EXPECT_EQ(x87(), X87_NEAREST);
		EXPECT_EQ(x87_flags(), i < 5 ? DIVIDED_BY_ZERO : 0);
		if (i == 4)
			__asm__ volatile("fnclex");
	}
}

static void *seen_arg;
static uintptr_t seen_frame;

static void look_around(void *arg)
{
	seen_arg = arg;
	seen_frame = (uintptr_t)__builtin_frame_address(0);
	for (;;)
		arch_switch(&there, &here);
}

TEST(a_fresh_context_begins_at_the_top_with_its_argument)
{
	if (!bare())
		return;
	for (uintptr_t top = (uintptr_t)stack + STACK; top > (uintptr_t)stack + STACK / 2;
	     top -= 16) {
		arch_context_init(&there, top, look_around, (void *)top);
		arch_switch(&here, &there);
		EXPECT(seen_arg == (void *)top);
		EXPECT_EQ(seen_frame % 16, 0);
		EXPECT(seen_frame < top && seen_frame + 256 > top);
	}
}

/* ---- protection keys ---- */

static uint32_t pkru(void)
{
	uint32_t w, high;
	__asm__ volatile("rdpkru" : "=a"(w), "=d"(high) : "c"(0));
	return w;
}

static void set_pkru(uint32_t w)
{
	__asm__ volatile("wrpkru" : : "a"(w), "c"(0), "d"(0));
}

static void protect_otherwise(void *arg)
{
	EXPECT_EQ(pkru(), (uintptr_t)arg);
	for (uint32_t i = 0;; i++) {
		set_pkru(0x10 << i % 4 * 2);
		arch_switch(&there, &here);
		EXPECT_EQ(pkru(), 0x10 << i % 4 * 2);
	}
}

TEST(a_switch_keeps_protection_keys_once_they_are_used)
{
	int key;
	uint32_t own;

	if (!bare())
		return;
	key = pkey_alloc(0, 0);
	if (key < 0) {
		skipped("no protection keys here");
		return;
	}
	arch_use_pkru();
	own = pkru();
	arch_context_init(&there, (uintptr_t)stack + STACK, protect_otherwise,
			  (void *)(uintptr_t)own);
	for (int i = 0; i < 10; i++) {
		arch_switch(&here, &there);
		EXPECT_EQ(pkru(), own);
	}
}

static uint32_t there_was;

static void takes_turns(void *arg)
{
	/* Where a context is going to be saved: what lies there is no PKRU. */
	volatile uint64_t litter[64];

	(void)arg;
	for (int i = 0; i < 64; i++)
		litter[i] = ~(uint64_t)0;
	(void)litter[0];
	for (;;) {
		arch_switch(&there, &here);
		there_was = pkru();
	}
}

TEST(a_context_saved_before_keys_were_used_has_what_all_had_then)
{
	uint32_t before;

	if (!bare())
		return;
	if (pkey_alloc(0, 0) < 0) {
		skipped("no protection keys here");
		return;
	}
	before = pkru();
	for (uintptr_t i = 0; i < STACK / sizeof(uint64_t); i++)
		((uint64_t *)stack)[i] = ~(uint64_t)0;
	arch_context_init(&there, (uintptr_t)stack + STACK, takes_turns, NULL);
	arch_switch(&here, &there);
	arch_use_pkru();
	set_pkru(before ^ 0x30);
	there_was = 0;
	arch_switch(&here, &there);
	EXPECT_EQ(pkru(), before ^ 0x30);
	EXPECT_EQ(there_was, before);
}

/* ---- on the running core ---- */

static struct group grp;

enum { KEYED = 40 };

static ATOMIC(uint32_t) inherited;

static void starts_as_its_maker(void *arg)
{
	add_rlx(&inherited, pkru() == (uintptr_t)arg);
	group_done(&grp);
}

/* Rights to no key but the first two bits, so that all that is the program's stays open. */
static uint32_t rights_of(uintptr_t me)
{
	return (uint32_t)(me * 2654435761u) & 0xfffffffcu;
}

static void keeps_its_rights(void *arg)
{
	uintptr_t me = (uintptr_t)arg;

	set_pkru(rights_of(me));
	for (int i = 0; i < 60; i++) {
		switch (i % 4) {
		case 0:
			gosched();
			break;
		case 1:
			goyield();
			break;
		case 2:
			sleep_ns(100000);
			break;
		default:
			compute(100000); /* Some are stopped in it. */
		}
		EXPECT_EQ(pkru(), rights_of(me));
	}
	go(starts_as_its_maker, (void *)(uintptr_t)rights_of(me));
	group_done(&grp);
}

TEST_IN(60, each_g_has_its_own_protection_keys_and_a_new_one_its_makers)
{
	int key;
	uint32_t own;
	struct stats sum;

	if (!bare())
		return;
	start(4);
	core_keys();
	key = pkey_alloc(0, 0);
	if (key < 0) {
		skipped("no protection keys here");
		return;
	}
	own = pkru();
	grp.left = 2 * KEYED;
	for (uintptr_t i = 0; i < KEYED; i++)
		go(keeps_its_rights, (void *)i);
	group_wait(&grp);
	EXPECT_EQ(pkru(), own);
	EXPECT_EQ(ld_rlx(&inherited), KEYED);
	stats_sum(&sum);
	test_say("  %lld slices ended by signal", (long long)sum.preempts);
}

static void round_in_own_way(void *arg)
{
	uint32_t sse = (uintptr_t)arg % 2 ? SSE_UP : SSE_DOWN;
	uint16_t fp = (uintptr_t)arg % 2 ? X87_SINGLE_ZERO : X87_DOWN;

	EXPECT_EQ(mxcsr() & 0xffc0, SSE_NEAREST);
	control(sse, fp);
	for (int i = 0; i < 50; i++) {
		if (i % 2)
			gosched();
		else
			goyield();
		EXPECT_EQ(mxcsr() & 0xffc0, sse);
		EXPECT_EQ(x87(), fp);
	}
	group_done(&grp);
}

TEST(each_g_rounds_in_its_own_way)
{
	start(4);
	grp.left = 50;
	for (uintptr_t i = 0; i < 50; i++)
		go(round_in_own_way, (void *)i);
	group_wait(&grp);
	EXPECT_EQ(mxcsr() & 0xffc0, SSE_NEAREST);
}

static _Unwind_Reason_Code count_frame(struct _Unwind_Context *context, void *arg)
{
	int *frames = arg;

	(void)context;
	return ++*frames > 100 ? _URC_END_OF_STACK : _URC_NO_REASON;
}

static void __attribute__((noinline)) walk(int depth, int *frames)
{
	if (depth > 0)
		walk(depth - 1, frames);
	else
		EXPECT_EQ(_Unwind_Backtrace(count_frame, frames), _URC_END_OF_STACK);
	/* No tail call, or there is nothing to walk over. */
	__asm__ volatile("" : : "r"(frames) : "memory");
}

static void walk_own_stack(void *arg)
{
	int shallow = 0, deep = 0;

	(void)arg;
	walk(0, &shallow);
	walk(20, &deep);
	/* This, gstart and arch_start; and each call of walk once. */
	EXPECT(shallow >= 3 && shallow < 10);
	EXPECT_EQ(deep, shallow + 20);
	group_done(&grp);
}

TEST(an_unwinder_walks_a_gs_stack_to_its_first_frame)
{
	if (!bare())
		return;
	/* The unwinder is libc's guest: nobody else runs meanwhile. */
	start_with(1, without_sysmon);
	grp.left = 1;
	EXPECT_EQ(newproc(walk_own_stack, NULL, STACK, NULL), 0);
	group_wait(&grp);
}
