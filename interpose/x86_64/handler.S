/* handler_call(sig, info, uc, fn): calls the program's handler. Who walks the stack from there finds behind it
 * one frame, a signal's, as natively, and then what the signal interrupted, by the registers in uc: ours in
 * between are skipped. A profiler that leaves out the first frames counts on it. */
	.text

	.globl handler_call
	.hidden handler_call
	.type handler_call, @function
	.p2align 4
handler_call:
	.cfi_startproc
	pushq %rbx
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %rbx, 0
	movq %rdx, %rbx
	.cfi_endproc

	/* The place in uc, whose address is in rbx, where that register is: as two bytes of a number. */
	.macro from_uc register, place
	.cfi_escape 0x10, \register, 3, 0x73, (\place & 0x7f) | 0x80, \place >> 7
	.endm

	.cfi_startproc
	.cfi_signal_frame
	.cfi_escape 0x0f, 4, 0x73, (160 & 0x7f) | 0x80, 160 >> 7, 0x06
	from_uc 0, 144	/* rax */
	from_uc 1, 136	/* rdx */
	from_uc 2, 152	/* rcx */
	from_uc 3, 128	/* rbx */
	from_uc 4, 112	/* rsi */
	from_uc 5, 104	/* rdi */
	from_uc 6, 120	/* rbp */
	from_uc 7, 160	/* rsp */
	from_uc 8, 40
	from_uc 9, 48
	from_uc 10, 56
	from_uc 11, 64
	from_uc 12, 72
	from_uc 13, 80
	from_uc 14, 88
	from_uc 15, 96
	from_uc 16, 168	/* rip */
	call *%rcx
	.cfi_endproc

	.cfi_startproc
	.cfi_def_cfa_offset 16
	.cfi_offset %rbx, -16
	popq %rbx
	.cfi_def_cfa_offset 8
	.cfi_restore %rbx
	ret
	.cfi_endproc
	.size handler_call, . - handler_call

	.section .note.GNU-stack, "", @progbits
