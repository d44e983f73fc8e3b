/* getcontext, setcontext, swapcontext: as the C library's, but for the mask, which is the G's as well as the
 * kernel thread's, and which the kernel need not be told when it stays. Where heddle does not serve, the real
 * one is jumped to: what it saves is its caller's. The offsets are ucontext_t's (contexts.c checks them). */
	.text

	.macro keep register
	pushq %\register
	.cfi_adjust_cfa_offset 8
	.endm

	.macro restore register
	popq %\register
	.cfi_adjust_cfa_offset -8
	.endm

/* finder says what to jump to, or NULL; the call's arguments are there again after it. */
	.macro entry name, finder
	.globl \name
	.type \name, @function
	.p2align 4
\name:
	.cfi_startproc
	.irp register, rdi,rsi,rdx,rcx,r8,r9
	keep \register
	.endr
	subq $8, %rsp
	.cfi_adjust_cfa_offset 8
	call \finder
	addq $8, %rsp
	.cfi_adjust_cfa_offset -8
	.irp register, r9,r8,rcx,rdx,rsi,rdi
	restore \register
	.endr
	testq %rax, %rax
	jz 1f
	jmp *%rax
1:
	.endm

/* The caller, as it finds itself when the function returns, to rdi. */
	.macro save
	movq %r8, 40(%rdi)
	movq %r9, 48(%rdi)
	movq %r12, 72(%rdi)
	movq %r13, 80(%rdi)
	movq %r14, 88(%rdi)
	movq %r15, 96(%rdi)
	movq %rdi, 104(%rdi)
	movq %rsi, 112(%rdi)
	movq %rbp, 120(%rdi)
	movq %rbx, 128(%rdi)
	movq %rdx, 136(%rdi)
	movq %rcx, 152(%rdi)
	leaq 8(%rsp), %rcx
	movq %rcx, 160(%rdi)
	movq (%rsp), %rcx
	movq %rcx, 168(%rdi)
	leaq 424(%rdi), %rcx
	movq %rcx, 224(%rdi)
	fnstenv (%rcx)
	fldenv (%rcx)
	stmxcsr 448(%rdi)
	.endm

/* The one whose address was pushed last goes on, if its mask can be read. */
	.macro goes_on
	call context_mask
	restore rdx
	testl %eax, %eax
	jz 1f
	ret
1:	movq 224(%rdx), %rcx
	fldenv (%rcx)
	ldmxcsr 448(%rdx)
	movq 40(%rdx), %r8
	movq 48(%rdx), %r9
	movq 72(%rdx), %r12
	movq 80(%rdx), %r13
	movq 88(%rdx), %r14
	movq 96(%rdx), %r15
	movq 104(%rdx), %rdi
	movq 112(%rdx), %rsi
	movq 120(%rdx), %rbp
	movq 128(%rdx), %rbx
	movq 152(%rdx), %rcx
	movq 168(%rdx), %r11
	movq 160(%rdx), %rsp
	movq 136(%rdx), %rdx
	xorl %eax, %eax
	jmp *%r11
	.endm

	.macro over name
	.cfi_endproc
	.size \name, . - \name
	.endm

	entry getcontext, getcontext_real
	save
	subq $8, %rsp
	.cfi_adjust_cfa_offset 8
	xorl %esi, %esi
	call context_mask
	addq $8, %rsp
	.cfi_adjust_cfa_offset -8
	ret
	over getcontext

	entry setcontext, setcontext_real
	keep rdi
	movq %rdi, %rsi
	xorl %edi, %edi
	goes_on
	over setcontext

	entry swapcontext, swapcontext_real
	save
	keep rsi
	goes_on
	over swapcontext

/* Where the function of makecontext's returns to; rbx says where uc_link is. */
	.globl context_over
	.hidden context_over
	.type context_over, @function
	.p2align 4
	nop
context_over:
	.cfi_startproc
	.cfi_undefined rip
	movq %rbx, %rsp
	movq (%rsp), %rdi
	testq %rdi, %rdi
	jz 1f
	call setcontext
	movl %eax, %edi
1:	call exit@PLT
	hlt
	over context_over

	.section .note.GNU-stack, "", @progbits
