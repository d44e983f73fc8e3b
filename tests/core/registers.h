/* A loop that owns every register a program can own, to see that they all come through
 * a preemption. For x86-64. */
#ifndef HEDDLE_TESTS_REGISTERS_H
#define HEDDLE_TESTS_REGISTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum registers_level { REGISTERS_SSE, REGISTERS_AVX, REGISTERS_AVX512 };

/* The offsets are used below. */
struct registers {
	uint64_t gpr[15]; /* rax rbx rcx rdx rsi rdi rbp r8..r15 */
	uint64_t pad;
	double x87[8]; /* at 128 */
	uint32_t mxcsr; /* at 192 */
	uint32_t x87control; /* at 196 */
	uint64_t pad2[7];
	uint64_t mask[8]; /* at 256; k1..k7 with AVX-512 */
	uint64_t vector[32][8]; /* at 320; the part that the level has */
};

/* registers_hold: loads *from, counts spins down to 0, stores what it then has in *to. */
void registers_hold(const struct registers *from, struct registers *to, uint64_t spins,
		    enum registers_level level);
extern const char registers_hold_end[];

#define REGS_16(X)                                                                                 \
	X(0)                                                                                       \
	X(1)                                                                                       \
	X(2)                                                                                       \
	X(3)                                                                                       \
	X(4)                                                                                       \
	X(5)                                                                                       \
	X(6)                                                                                       \
	X(7)                                                                                       \
	X(8)                                                                                       \
	X(9)                                                                                       \
	X(10)                                                                                      \
	X(11)                                                                                      \
	X(12)                                                                                      \
	X(13)                                                                                      \
	X(14)                                                                                      \
	X(15)
#define REGS_HIGH(X)                                                                               \
	X(16)                                                                                      \
	X(17)                                                                                      \
	X(18)                                                                                      \
	X(19)                                                                                      \
	X(20)                                                                                      \
	X(21)                                                                                      \
	X(22)                                                                                      \
	X(23)                                                                                      \
	X(24)                                                                                      \
	X(25)                                                                                      \
	X(26)                                                                                      \
	X(27)                                                                                      \
	X(28)                                                                                      \
	X(29)                                                                                      \
	X(30)                                                                                      \
	X(31)
#define LOAD_XMM(n) "movups 320+64*" #n "(%rdi), %xmm" #n "\n\t"
#define LOAD_YMM(n) "vmovups 320+64*" #n "(%rdi), %ymm" #n "\n\t"
#define LOAD_ZMM(n) "vmovups 320+64*" #n "(%rdi), %zmm" #n "\n\t"
#define STORE_XMM(n) "movups %xmm" #n ", 320+64*" #n "(%rdi)\n\t"
#define STORE_YMM(n) "vmovups %ymm" #n ", 320+64*" #n "(%rdi)\n\t"
#define STORE_ZMM(n) "vmovups %zmm" #n ", 320+64*" #n "(%rdi)\n\t"
#define MASKS(X)                                                                                   \
	X(1)                                                                                       \
	X(2)                                                                                       \
	X(3)                                                                                       \
	X(4)                                                                                       \
	X(5)                                                                                       \
	X(6)                                                                                       \
	X(7)
#define LOAD_MASK(n) "kmovw 256+8*" #n "(%rdi), %k" #n "\n\t"
#define STORE_MASK(n) "kmovw %k" #n ", 256+8*" #n "(%rdi)\n\t"
#define X87S(X)                                                                                    \
	X(0)                                                                                       \
	X(1)                                                                                       \
	X(2)                                                                                       \
	X(3)                                                                                       \
	X(4)                                                                                       \
	X(5)                                                                                       \
	X(6)                                                                                       \
	X(7)
#define LOAD_X87(n) "fldl 128+8*" #n "(%rdi)\n\t"
#define STORE_X87(n) "fstpl 128+56-8*" #n "(%rdi)\n\t"

/* On the stack: 0 spins, 8 to, 16 level, 24 the caller's mxcsr and x87 control word, 32 rdi. */
__asm__(".pushsection .text\n"
	".globl registers_hold\n"
	".type registers_hold, @function\n"
	"registers_hold:\n\t"
	"pushq %rbp\n\tpushq %rbx\n\tpushq %r12\n\tpushq %r13\n\tpushq %r14\n\tpushq %r15\n\t"
	"subq $40, %rsp\n\t"
	"movq %rdx, (%rsp)\n\tmovq %rsi, 8(%rsp)\n\tmovq %rcx, 16(%rsp)\n\t"
	"stmxcsr 24(%rsp)\n\tfnstcw 28(%rsp)\n\t"
	"fninit\n\t"
	"ldmxcsr 192(%rdi)\n\tfldcw 196(%rdi)\n\t" X87S(
		LOAD_X87) "cmpl $1, %ecx\n\tjb 1f\n\tje 2f\n\t" REGS_16(LOAD_ZMM) REGS_HIGH(LOAD_ZMM)
		MASKS(LOAD_MASK) "jmp 3f\n"
				 "2:\t" REGS_16(
					 LOAD_YMM) "jmp 3f\n"
						   "1:\t" REGS_16(
							   LOAD_XMM) "3:\tmovq (%rdi), %rax\n\tmovq 8(%rdi), %rbx\n\tmovq 16(%rdi), %rcx\n\t"
								     "movq 24(%rdi), %rdx\n\tmovq 32(%rdi), %rsi\n\tmovq 48(%rdi), %rbp\n\t"
								     "movq 56(%rdi), %r8\n\tmovq 64(%rdi), %r9\n\tmovq 72(%rdi), %r10\n\t"
								     "movq 80(%rdi), %r11\n\tmovq 88(%rdi), %r12\n\tmovq 96(%rdi), %r13\n\t"
								     "movq 104(%rdi), %r14\n\tmovq 112(%rdi), %r15\n\tmovq 40(%rdi), %rdi\n"
								     "4:\tdecq (%rsp)\n\tjnz 4b\n\t"
								     "movq %rdi, 32(%rsp)\n\tmovq 8(%rsp), %rdi\n\t"
								     "movq %rax, (%rdi)\n\tmovq %rbx, 8(%rdi)\n\tmovq %rcx, 16(%rdi)\n\t"
								     "movq %rdx, 24(%rdi)\n\tmovq %rsi, 32(%rdi)\n\tmovq %rbp, 48(%rdi)\n\t"
								     "movq %r8, 56(%rdi)\n\tmovq %r9, 64(%rdi)\n\tmovq %r10, 72(%rdi)\n\t"
								     "movq %r11, 80(%rdi)\n\tmovq %r12, 88(%rdi)\n\tmovq %r13, 96(%rdi)\n\t"
								     "movq %r14, 104(%rdi)\n\tmovq %r15, 112(%rdi)\n\t"
								     "movq 32(%rsp), %rax\n\tmovq %rax, 40(%rdi)\n\t"
								     "stmxcsr 192(%rdi)\n\tfnstcw 196(%rdi)\n\t" X87S(
									     STORE_X87) "movq 16(%rsp), %rcx\n\t"
											"cmpl $1, %ecx\n\tjb 5f\n\tje 6f\n\t" REGS_16(
												STORE_ZMM) REGS_HIGH(STORE_ZMM)
												MASKS(STORE_MASK) "vzeroupper\n\tjmp 7f\n"
														  "6:\t" REGS_16(
															  STORE_YMM) "vzeroupper\n\tjmp 7f\n"
																     "5:\t" REGS_16(
																	     STORE_XMM) "7:\tfninit\n\tldmxcsr 24(%rsp)\n\tfldcw 28(%rsp)\n\t"
																			"addq $40, %rsp\n\t"
																			"popq %r15\n\tpopq %r14\n\tpopq %r13\n\tpopq %r12\n\tpopq %rbx\n\tpopq %rbp\n\t"
																			"ret\n"
																			".globl registers_hold_end\nregisters_hold_end:\n\t"
																			".size registers_hold, . - registers_hold\n"
																			".popsection\n");

static inline enum registers_level registers_best(void)
{
	__builtin_cpu_init();
	return __builtin_cpu_supports("avx512f") ? REGISTERS_AVX512
	       : __builtin_cpu_supports("avx2")	 ? REGISTERS_AVX
						 : REGISTERS_SSE;
}

/* A pattern that differs in each register and each seed. */
static inline void registers_fill(struct registers *r, uint64_t seed, enum registers_level level)
{
	static const size_t words[] = { 2, 4, 8 };
	uint64_t z = seed * 0x9e3779b97f4a7c15u + 1;
	int n = level == REGISTERS_AVX512 ? 32 : 16;

	*r = (struct registers){ .pad = 0 };
	for (int i = 0; i < 15; i++)
		r->gpr[i] = z *= 0xd6e8feb86659fd93u;
	for (int i = 0; i < 8; i++)
		r->x87[i] = (double)(seed % 1000000) + i;
	/* All exceptions masked, one of the four ways of rounding each. */
	r->mxcsr = 0x1f80 | (uint32_t)(seed % 4) << 13;
	r->x87control = 0x37f | (uint32_t)((seed + 1) % 4) << 10;
	for (int i = 0; i < n; i++)
		for (size_t j = 0; j < words[level]; j++)
			r->vector[i][j] = z *= 0xd6e8feb86659fd93u;
	for (int i = 1; level == REGISTERS_AVX512 && i < 8; i++)
		r->mask[i] = (z *= 0xd6e8feb86659fd93u) >> 48;
}

/* The index of the first word in which they differ, or -1. */
static inline long registers_differ(const struct registers *a, const struct registers *b)
{
	const uint64_t *x = (const uint64_t *)a, *y = (const uint64_t *)b;

	for (size_t i = 0; i < sizeof(*a) / 8; i++)
		if (x[i] != y[i])
			return (long)i;
	return -1;
}

#endif
