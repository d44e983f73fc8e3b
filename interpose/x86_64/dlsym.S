/* dlopen, dlmopen, dlsym, dlvsym: what the loader does for whom goes by the return address, so the real
 * one is jumped to, with the caller's still on the stack; but for a library's own handle. */
	.text

/* The call's arguments are given to `finder`, and are there again after it. */
	.macro ask finder
	pushq %rdi
	.cfi_adjust_cfa_offset 8
	pushq %rsi
	.cfi_adjust_cfa_offset 8
	pushq %rdx
	.cfi_adjust_cfa_offset 8
	call \finder
	movq %rdx, %rcx
	popq %rdx
	.cfi_adjust_cfa_offset -8
	popq %rsi
	.cfi_adjust_cfa_offset -8
	popq %rdi
	.cfi_adjust_cfa_offset -8
	.endm

	.macro entry name
	.globl \name
	.type \name, @function
	.p2align 4
\name:
	.cfi_startproc
	.endm

	.macro over name
	.cfi_endproc
	.size \name, . - \name
	.endm

	entry dlopen
	ask symbols_open
	jmp *%rax
	over dlopen

	entry dlmopen
	ask symbols_mopen
	jmp *%rax
	over dlmopen

	entry dlsym
	leaq 1(%rdi), %rax /* RTLD_NEXT is -1, RTLD_DEFAULT 0 */
	cmpq $1, %rax
	ja symbol_of
	ask symbol_real
	jmp *%rax
	over dlsym

	entry dlvsym
	movq (%rsp), %rcx
	ask symbol_versioned /* ours, and the real dlvsym: in rcx then */
	testq %rax, %rax
	jnz 1f
	jmp *%rcx
1:	ret
	over dlvsym
	.section .note.GNU-stack, "", @progbits
