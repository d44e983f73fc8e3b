/* dlopen, dlmopen, dlsym, dlvsym: what the loader does for whom goes by the return address, so the real one is
 * jumped to, with the caller's still on the stack; but for a library's own handle. */
	.text
	.globl dlopen
	.type dlopen, @function
	.p2align 4
dlopen:
	.cfi_startproc
	pushq %rdi
	.cfi_adjust_cfa_offset 8
	pushq %rsi
	.cfi_adjust_cfa_offset 8
	subq $8, %rsp
	.cfi_adjust_cfa_offset 8
	call symbols_open
	addq $8, %rsp
	.cfi_adjust_cfa_offset -8
	popq %rsi
	.cfi_adjust_cfa_offset -8
	popq %rdi
	.cfi_adjust_cfa_offset -8
	jmp *%rax
	.cfi_endproc
	.size dlopen, . - dlopen

	.globl dlmopen
	.type dlmopen, @function
	.p2align 4
dlmopen:
	.cfi_startproc
	pushq %rdi
	.cfi_adjust_cfa_offset 8
	pushq %rsi
	.cfi_adjust_cfa_offset 8
	pushq %rdx
	.cfi_adjust_cfa_offset 8
	call symbols_mopen
	popq %rdx
	.cfi_adjust_cfa_offset -8
	popq %rsi
	.cfi_adjust_cfa_offset -8
	popq %rdi
	.cfi_adjust_cfa_offset -8
	jmp *%rax
	.cfi_endproc
	.size dlmopen, . - dlmopen

	.globl dlsym
	.type dlsym, @function
	.p2align 4
dlsym:
	.cfi_startproc
	leaq 1(%rdi), %rax /* RTLD_NEXT is -1, RTLD_DEFAULT 0 */
	cmpq $1, %rax
	ja symbol_of
	pushq %rdi
	.cfi_adjust_cfa_offset 8
	pushq %rsi
	.cfi_adjust_cfa_offset 8
	subq $8, %rsp
	.cfi_adjust_cfa_offset 8
	call symbol_real
	addq $8, %rsp
	.cfi_adjust_cfa_offset -8
	popq %rsi
	.cfi_adjust_cfa_offset -8
	popq %rdi
	.cfi_adjust_cfa_offset -8
	jmp *%rax
	.cfi_endproc
	.size dlsym, . - dlsym

	.globl dlvsym
	.type dlvsym, @function
	.p2align 4
dlvsym:
	.cfi_startproc
	movq (%rsp), %rcx
	pushq %rdi
	.cfi_adjust_cfa_offset 8
	pushq %rsi
	.cfi_adjust_cfa_offset 8
	pushq %rdx
	.cfi_adjust_cfa_offset 8
	call symbol_versioned /* ours, and the real dlvsym */
	movq %rdx, %rcx
	popq %rdx
	.cfi_adjust_cfa_offset -8
	popq %rsi
	.cfi_adjust_cfa_offset -8
	popq %rdi
	.cfi_adjust_cfa_offset -8
	testq %rax, %rax
	jnz 1f
	jmp *%rcx
1:	ret
	.cfi_endproc
	.size dlvsym, . - dlvsym
	.section .note.GNU-stack, "", @progbits
