/* The context switch, the first frame of a context, and clone. Read context.h first.
 *
 * A saved context, from its stack pointer upwards:
 *   0  mxcsr, x87 control word (4 + 2 bytes)
 *   8  PKRU, if the byte at 14 is 1; else it is of before arch_use_pkru
 *   12 x87 exception flags (2 bytes)
 *   15 1: the tiles are below, at the next multiple of 64
 *   16 r15  24 r14  32 r13  40 r12  48 rbx  56 rbp  64 return address */

#include "extras.h"

	.section heddle_text, "ax", @progbits

	.globl	arch_switch
	.hidden	arch_switch
	.type	arch_switch, @function
	.p2align 5
arch_switch:
	.cfi_startproc
	fnstsw	%ax
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
	/* With the bit that says that one is pending, which no saved context has. */
	movzbl	%al, %r9d
	andl	$0x7f, %eax
	movl	%eax, 12(%rsp)
	cmpb	$0, arch_extras(%rip)
	jne	.Lsave_extras
.Lsaved:
	movq	%rsp, (%rdi)
	movq	(%rsi), %rsp
	/* From here on the frame is the other context's, of the same shape. */
.Lrestore:
	cmpb	$0, arch_extras(%rip)
	jne	.Lload_extras
.Lloaded:
	ldmxcsr	(%rsp)
	cmpw	12(%rsp), %r9w
	jne	.Lload_flags
	fldcw	4(%rsp)
.Lrestored:
	addq	$16, %rsp
	.cfi_adjust_cfa_offset -16
	popq	%r15
	.cfi_adjust_cfa_offset -8
	.cfi_restore %r15
	popq	%r14
	.cfi_adjust_cfa_offset -8
	.cfi_restore %r14
	popq	%r13
	.cfi_adjust_cfa_offset -8
	.cfi_restore %r13
	popq	%r12
	.cfi_adjust_cfa_offset -8
	.cfi_restore %r12
	popq	%rbx
	.cfi_adjust_cfa_offset -8
	.cfi_restore %rbx
	popq	%rbp
	.cfi_adjust_cfa_offset -8
	.cfi_restore %rbp
	ret
	.cfi_endproc
	.size	arch_switch, . - arch_switch

	.type	switch_extras, @function
switch_extras:
	.cfi_startproc
	.cfi_def_cfa %rsp, 72
	.cfi_offset %rbp, -16
	.cfi_offset %rbx, -24
	.cfi_offset %r12, -32
	.cfi_offset %r13, -40
	.cfi_offset %r14, -48
	.cfi_offset %r15, -56
.Lsave_extras:
	testb	$EXTRA_PKRU, arch_extras(%rip)
	jz	1f
	xorl	%ecx, %ecx
	rdpkru
	movl	%eax, 8(%rsp)
	movb	$1, 14(%rsp)
1:	testb	$EXTRA_TILES, arch_extras(%rip)
	jz	.Lsaved
	movl	$1, %ecx
	xgetbv
	testl	$TILES_STATE, %eax
	jz	.Lsaved
	leaq	-TILES_SIZE(%rsp), %r8
	andq	$-64, %r8
	/* The header, of which xsavec writes the first half of a quarter. */
	xorl	%eax, %eax
	.irp at, 0,8,16,24,32,40,48,56
	movq	%rax, 512+\at(%r8)
	.endr
	xorl	%edx, %edx
	movl	$TILES_STATE, %eax
	xsavec64	(%r8)
	movb	$1, 15(%rsp)
	jmp	.Lsaved
/* The flags differ, which is rare, or one is pending: what loads the control word would trap in the
 * wrong context. fnstenv masks all; then both come at once, and what is pending in this one traps in
 * its own next instruction. */
.Lload_flags:
	subq	$32, %rsp
	.cfi_adjust_cfa_offset 32
	fnstenv	(%rsp)
	movzwl	36(%rsp), %eax
	movw	%ax, (%rsp)
	movzwl	44(%rsp), %eax
	movw	%ax, 4(%rsp)
	fldenv	(%rsp)
	addq	$32, %rsp
	.cfi_adjust_cfa_offset -32
	jmp	.Lrestored
	.globl	arch_switch_landing
	.hidden	arch_switch_landing
arch_switch_landing:
	fnstsw	%ax
	movzbl	%al, %r9d
	jmp	.Lrestore
.Lload_extras:
	testb	$EXTRA_PKRU, arch_extras(%rip)
	jz	2f
	xorl	%ecx, %ecx
	rdpkru
	movl	%eax, %r8d
	movl	arch_pkru_before(%rip), %eax
	cmpb	$0, 14(%rsp)
	cmovnel	8(%rsp), %eax
	cmpl	%r8d, %eax
	je	2f
	/* rdpkru has cleared edx, as wrpkru wants it. */
	wrpkru
2:	testb	$EXTRA_TILES, arch_extras(%rip)
	jz	.Lloaded
	cmpb	$0, 15(%rsp)
	je	3f
	leaq	-TILES_SIZE(%rsp), %r8
	andq	$-64, %r8
	xorl	%edx, %edx
	movl	$TILES_STATE, %eax
	xrstor64	(%r8)
	jmp	.Lloaded
	/* Who has none leaves none to the next. */
3:	movl	$1, %ecx
	xgetbv
	testl	$TILES_STATE, %eax
	jz	.Lloaded
	tilerelease
	jmp	.Lloaded
	.cfi_endproc
	.size	switch_extras, . - switch_extras

/* The first frame of a context: r12 holds the function, r13 its argument. The undefined
 * return address ends every unwinder's walk here. A fresh context returns to the byte
 * behind the nop, since unwinders look up the address before a return address. */
	.globl	arch_start
	.hidden	arch_start
	.type	arch_start, @function
arch_start:
	.cfi_startproc
	.cfi_undefined %rip
	nop
	movq	%r13, %rdi
	call	*%r12
	ud2
	.cfi_endproc
	.size	arch_start, . - arch_start

/* long arch_clone(uintptr_t top, void (*entry)(void *), void *arg, uintptr_t fs, int32_t *tid) */
	.globl	arch_clone
	.hidden	arch_clone
	.type	arch_clone, @function
arch_clone:
	.cfi_startproc
	/* VM FS FILES SIGHAND THREAD SYSVSEM SETTLS PARENT_SETTID CHILD_CLEARTID */
	movq	%rsi, %r9
	movq	%rdx, %r11
	movq	%rdi, %rsi
	andq	$-16, %rsi
	subq	$16, %rsi
	movq	%r9, (%rsi)
	movq	%r11, 8(%rsi)
	movl	$0x3d0f00, %edi
	movq	%r8, %rdx
	movq	%r8, %r10
	movq	%rcx, %r8
	movl	$56, %eax
	syscall
	testq	%rax, %rax
	jz	1f
	ret
1:
	.cfi_undefined %rip
	xorl	%ebp, %ebp
	popq	%rax
	popq	%rdi
	call	*%rax
	xorl	%edi, %edi
	movl	$60, %eax
	syscall
	ud2
	.cfi_endproc
	.size	arch_clone, . - arch_clone

/* Ends a signal handler that the core installed. At the stack pointer is the ucontext, where the
 * interrupted registers are. Unwinders know the place by that being said here, or by the two
 * instructions; they look it up by the byte before. */
	.macro	interrupted reg, at
	.cfi_escape 0x10, \reg, 3, 0x77, (\at & 0x7f) | 0x80, \at >> 7
	.endm
	.globl	arch_sigrestorer
	.hidden	arch_sigrestorer
	.type	arch_sigrestorer, @function
	.cfi_startproc
	.cfi_signal_frame
	/* The canonical frame address is the interrupted stack pointer. */
	.cfi_escape 0x0f, 4, 0x77, 0xa0, 0x01, 0x06
	interrupted 8, 40
	interrupted 9, 48
	interrupted 10, 56
	interrupted 11, 64
	interrupted 12, 72
	interrupted 13, 80
	interrupted 14, 88
	interrupted 15, 96
	interrupted 5, 104	/* rdi */
	interrupted 4, 112	/* rsi */
	interrupted 6, 120	/* rbp */
	interrupted 3, 128	/* rbx */
	interrupted 1, 136	/* rdx */
	interrupted 0, 144	/* rax */
	interrupted 2, 152	/* rcx */
	interrupted 7, 160	/* rsp */
	interrupted 16, 168	/* rip */
	nop
arch_sigrestorer:
	movq	$15, %rax
	syscall
	.cfi_endproc
	.size	arch_sigrestorer, . - arch_sigrestorer

/* void arch_sigreturn(uintptr_t uc): ends the signal frame whose ucontext is at uc.
 * The bytes between the two labels are never preempted: the frame is being left. */
	.globl	arch_sigreturn
	.hidden	arch_sigreturn
	.globl	arch_sigreturn_end
	.hidden	arch_sigreturn_end
	.type	arch_sigreturn, @function
arch_sigreturn:
	.cfi_startproc
	.cfi_undefined %rip
	/* GRUNNING, as the last store before the kernel takes over: rsi is &gp->status. */
	movq	%rdi, %rsp
	movl	$2, (%rsi)
	movl	$15, %eax
	syscall
	ud2
	.cfi_endproc
arch_sigreturn_end:
	.size	arch_sigreturn, . - arch_sigreturn

/* Where a context stands that arch_sigdivert has diverted: rdi is the function, at rsp are the
 * program counter and the stack pointer that it had; no other register has changed. Like a
 * signal's, the frame above may have been interrupted before its first instruction. */
	.globl	arch_diverted
	.hidden	arch_diverted
	.type	arch_diverted, @function
arch_diverted:
	.cfi_startproc
	.cfi_signal_frame
	/* The canonical frame address is the word at rsp + 8, the return address that at rsp. */
	.cfi_escape 0x0f, 3, 0x77, 8, 0x06
	.cfi_escape 0x10, 16, 2, 0x77, 0
	call	*%rdi
	ud2
	.cfi_endproc
	.size	arch_diverted, . - arch_diverted

	.section .note.GNU-stack, "", @progbits
