/* What stands in the table of real symbols (shim/real.h) for those that nobody has called yet: one entry for
 * each, of 16 bytes, in the order of the table. The first call looks the symbol up, and goes on there with
 * all arguments where they were. */
	.macro keep register
	pushq %\register
	.cfi_adjust_cfa_offset 8
	.endm

	.macro restore register
	popq %\register
	.cfi_adjust_cfa_offset -8
	.endm

#define ALIAS(...)
#define PLAIN CALL
#define CALL(type, name, params, args, road) \
	.p2align 4; .cfi_def_cfa_offset 8; pushq $row; .cfi_def_cfa_offset 16; jmp look_up; .set row, row + 1
	.text
	.globl real_late_entries
	.hidden real_late_entries
	.type real_late_entries, @function
	.p2align 4
	.set row, 0
real_late_entries:
	.cfi_startproc
#include "../calls.def"
	CALL(long, syscall, , , LOCAL)
	.cfi_endproc
	.size real_late_entries, . - real_late_entries

	.type look_up, @function
	.p2align 4
look_up:
	.cfi_startproc
	.cfi_def_cfa_offset 16
	keep rdi
	keep rsi
	keep rdx
	keep rcx
	keep r8
	keep r9
	keep rax
	subq $136, %rsp
	.cfi_adjust_cfa_offset 136
	movups %xmm0, (%rsp)
	movups %xmm1, 16(%rsp)
	movups %xmm2, 32(%rsp)
	movups %xmm3, 48(%rsp)
	movups %xmm4, 64(%rsp)
	movups %xmm5, 80(%rsp)
	movups %xmm6, 96(%rsp)
	movups %xmm7, 112(%rsp)
	movl 192(%rsp), %edi
	call real_late
	movq %rax, %r11
	movups (%rsp), %xmm0
	movups 16(%rsp), %xmm1
	movups 32(%rsp), %xmm2
	movups 48(%rsp), %xmm3
	movups 64(%rsp), %xmm4
	movups 80(%rsp), %xmm5
	movups 96(%rsp), %xmm6
	movups 112(%rsp), %xmm7
	addq $136, %rsp
	.cfi_adjust_cfa_offset -136
	restore rax
	restore r9
	restore r8
	restore rcx
	restore rdx
	restore rsi
	restore rdi
	addq $8, %rsp
	.cfi_adjust_cfa_offset -8
	jmp *%r11
	.cfi_endproc
	.size look_up, . - look_up

	.section .note.GNU-stack, "", @progbits
