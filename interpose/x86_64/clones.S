/* In place of glibc's clone3 instruction and the test of its result. As there, rdi is the struct
 * clone_args, rdx and r8 are the function and the argument with which the child begins; on the stack
 * is the return address of the function that calls, and the child has none of it. */
	.text
	.globl clone_entry
	.hidden clone_entry
	.type clone_entry, @function
	.p2align 4
clone_entry:
	.cfi_startproc
	movq clone_stack@gottpoff(%rip), %r11
	movq %fs:(%r11), %rcx
	testq %rcx, %rcx
	jz 1f
	cmpq %rcx, 40(%rdi)
	je 2f
1:	syscall
	testq %rax, %rax
	jmp *clone_resume(%rip)
2:	movq $0, %fs:(%r11)
	movq %rdi, %rsi
	movq clone_taker@gottpoff(%rip), %r11
	movq %fs:(%r11), %rdi
	movq %r8, %rcx
	subq $8, %rsp
	.cfi_adjust_cfa_offset 8
	call *(%rdi)
	addq $8, %rsp
	.cfi_adjust_cfa_offset -8
	testq %rax, %rax
	jmp *clone_resume(%rip)
	.cfi_endproc
	.size clone_entry, . - clone_entry

	.section .note.GNU-stack, "", @progbits
