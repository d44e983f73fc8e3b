/* Kernel threads that come and go under a context that stays. Read context.h and the
 * shape of a saved context in switch.S first. */

#include "extras.h"

	.section heddle_text, "ax", @progbits

/* void arch_switch_exit(struct gobuf *from): arch_switch's first half, then the end of the
 * kernel thread. */
	.globl	arch_switch_exit
	.hidden	arch_switch_exit
	.type	arch_switch_exit, @function
	.p2align 4
arch_switch_exit:
	.cfi_startproc
	pushq	%rbp
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %rbp, 0
	pushq	%rbx
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %rbx, 0
	pushq	%r12
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %r12, 0
	pushq	%r13
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %r13, 0
	pushq	%r14
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %r14, 0
	pushq	%r15
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %r15, 0
	subq	$16, %rsp
	.cfi_adjust_cfa_offset 16
	stmxcsr	(%rsp)
	fnstcw	4(%rsp)
	movl	$0, 12(%rsp)
	testb	$EXTRA_PKRU, arch_extras(%rip)
	jz	1f
	xorl	%ecx, %ecx
	rdpkru
	movl	%eax, 8(%rsp)
	movb	$1, 14(%rsp)
1:	movq	%rsp, (%rdi)
	xorl	%edi, %edi
	movl	$60, %eax
	syscall
	ud2
	.cfi_endproc
	.size	arch_switch_exit, . - arch_switch_exit

/* long arch_owncall(long nr, long a, long b, long c, long d, long e, long f) */
	.globl	arch_owncall
	.hidden	arch_owncall
	.type	arch_owncall, @function
	.p2align 4
arch_owncall:
	.cfi_startproc
	movq	%rdi, %rax
	movq	%rsi, %rdi
	movq	%rdx, %rsi
	movq	%rcx, %rdx
	movq	%r8, %r10
	movq	%r9, %r8
	movq	8(%rsp), %r9
	syscall
	.globl	arch_owncall_made
	.hidden	arch_owncall_made
arch_owncall_made:
	ret
	.cfi_endproc
	.size	arch_owncall, . - arch_owncall

/* long arch_clone_into(const struct gobuf *to, uintptr_t fs, int32_t *tid) */
	.globl	arch_clone_into
	.hidden	arch_clone_into
	.type	arch_clone_into, @function
	.p2align 4
arch_clone_into:
	.cfi_startproc
	/* VM FS FILES SIGHAND THREAD SYSVSEM SETTLS CHILD_CLEARTID CHILD_SETTID */
	movq	%rsi, %r8
	movq	%rdx, %r10
	movq	(%rdi), %rsi
	xorl	%edx, %edx
	movl	$0x12d0f00, %edi
	movl	$56, %eax
	syscall
	testq	%rax, %rax
	jz	arch_switch_landing
	ret
	.cfi_endproc
	.size	arch_clone_into, . - arch_clone_into

	.section .note.GNU-stack, "", @progbits
