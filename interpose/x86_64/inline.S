/* In place of a system call instruction and the comparison with -ENOSYS behind it. A springboard
 * (inline.c) has left the red zone alone and pushed where it goes on. As the kernel, this keeps all
 * registers but rax, rcx and r11; of the vector registers the parts that code for any x86-64 uses,
 * for a wait of ours lets others run. */
	.text
	.globl inline_entry
	.hidden inline_entry
	.type inline_entry, @function
	.p2align 4
inline_entry:
	.cfi_startproc
	.cfi_def_cfa %rsp, 136
	.cfi_offset %rip, -136
	endbr64
	pushq %rbp
	.cfi_adjust_cfa_offset 8
	.cfi_offset %rbp, -144
	movq %rsp, %rbp
	.cfi_def_cfa_register %rbp
	subq $304, %rsp
	andq $-16, %rsp
	/* In the order of the kernel's arguments. */
	movq %rdi, 0(%rsp)
	movq %rsi, 8(%rsp)
	movq %rdx, 16(%rsp)
	movq %r10, 24(%rsp)
	movq %r8, 32(%rsp)
	movq %r9, 40(%rsp)
	.irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
	movaps %xmm\n, 48+16*\n(%rsp)
	.endr
	movq %rax, %rdi
	movq %rsp, %rsi
	call inline_call
	.irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
	movaps 48+16*\n(%rsp), %xmm\n
	.endr
	movq 0(%rsp), %rdi
	movq 8(%rsp), %rsi
	movq 16(%rsp), %rdx
	movq 24(%rsp), %r10
	movq 32(%rsp), %r8
	movq 40(%rsp), %r9
	leave
	.cfi_def_cfa %rsp, 136
	.cfi_restore %rbp
	cmpq $-38, %rax
	ret $128
	.cfi_endproc
	.size inline_entry, . - inline_entry

	.section .note.GNU-stack, "", @progbits
