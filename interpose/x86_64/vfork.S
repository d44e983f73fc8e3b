/* vfork: its child returns first, on the same stack, so nothing of ours may lie there: the
 * return address and the G are kept in registers, which the kernel gives back to both. */
	.text
	.globl vfork
	.type vfork, @function
	.p2align 4
vfork:
	.cfi_startproc
	subq $8, %rsp
	.cfi_adjust_cfa_offset 8
	call vfork_before
	addq $8, %rsp
	.cfi_adjust_cfa_offset -8
	popq %rdi
	.cfi_adjust_cfa_offset -8
	.cfi_register %rip, %rdi
	movq %rax, %rsi
	movl $58, %eax
	syscall
	pushq %rdi
	.cfi_adjust_cfa_offset 8
	.cfi_offset %rip, -8
	movq %rsi, %rdi
	movq %rax, %rsi
	subq $8, %rsp
	.cfi_adjust_cfa_offset 8
	testq %rax, %rax
	jz 1f
	call vfork_after
	jmp 2f
1:	call vfork_child
	xorl %eax, %eax
2:	addq $8, %rsp
	.cfi_adjust_cfa_offset -8
	ret
	.cfi_endproc
	.size vfork, . - vfork
	.section .note.GNU-stack, "", @progbits
