/* onstack(top, fn, arg): fn(arg) on the stack that ends at top, and back. */
	.section heddle_text, "ax", @progbits

	.globl	onstack
	.hidden	onstack
	.type	onstack, @function
	.p2align 4
onstack:
	.cfi_startproc
	pushq	%rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	movq	%rsp, %rbp
	.cfi_def_cfa_register %rbp
	movq	%rdi, %rsp
	andq	$-16, %rsp
	movq	%rdx, %rdi
	callq	*%rsi
	leave
	.cfi_def_cfa %rsp, 8
	retq
	.cfi_endproc
	.size	onstack, . - onstack

	.section .note.GNU-stack, "", @progbits
