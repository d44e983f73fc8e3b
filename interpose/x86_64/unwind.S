/* The unwinder's two functions that cleanup handlers in our own C need. It is loaded when the
 * first thread is unwound (by glibc, before it comes here), not at the start of every program.
 * What they do depends on who calls, so they are jumped to. */
	.text

	.macro forward name, index
	.globl \name
	.hidden \name
	.type \name, @function
	.p2align 4
\name:
	.cfi_startproc
	pushq %rdi
	.cfi_adjust_cfa_offset 8
	pushq %rsi
	.cfi_adjust_cfa_offset 8
	pushq %rdx
	.cfi_adjust_cfa_offset 8
	pushq %rcx
	.cfi_adjust_cfa_offset 8
	pushq %r8
	.cfi_adjust_cfa_offset 8
	movl $\index, %edi
	movq 40(%rsp), %rsi
	call unwinder
	popq %r8
	.cfi_adjust_cfa_offset -8
	popq %rcx
	.cfi_adjust_cfa_offset -8
	popq %rdx
	.cfi_adjust_cfa_offset -8
	popq %rsi
	.cfi_adjust_cfa_offset -8
	popq %rdi
	.cfi_adjust_cfa_offset -8
	jmp *%rax
	.cfi_endproc
	.size \name, . - \name
	.endm

	forward _Unwind_Resume, 0
	forward __gcc_personality_v0, 1

	.section .note.GNU-stack, "", @progbits
