// From a copy of the program's code to the engine and back: all registers are kept, but vectors, which the engine does not touch.
// Runs in: the thread whose segment is counted, on a stack of the engine's.
// May call: gr_count_next.
// Owns: gr_count_regs, in the order of a signal's context.

	.bss
	.balign 64
	.globl gr_count_regs
	.hidden gr_count_regs
gr_count_regs:
	.skip 23 * 8
gr_count_jump:
	.skip 8
	.balign 64
	.skip 0x8000
gr_count_stack:

	.text
	.globl gr_count_glue
	.hidden gr_count_glue
	.type gr_count_glue, @function
gr_count_glue:                           // rax: the area, which begins with the program's rax
	mov %r8, gr_count_regs(%rip)
	mov %r9, gr_count_regs+8(%rip)
	mov %r10, gr_count_regs+16(%rip)
	mov %r11, gr_count_regs+24(%rip)
	mov %r12, gr_count_regs+32(%rip)
	mov %r13, gr_count_regs+40(%rip)
	mov %r14, gr_count_regs+48(%rip)
	mov %r15, gr_count_regs+56(%rip)
	mov %rdi, gr_count_regs+64(%rip)
	mov %rsi, gr_count_regs+72(%rip)
	mov %rbp, gr_count_regs+80(%rip)
	mov %rbx, gr_count_regs+88(%rip)
	mov %rdx, gr_count_regs+96(%rip)
	mov %rcx, gr_count_regs+112(%rip)
	mov (%rax), %rcx
	mov %rcx, gr_count_regs+104(%rip)
	mov %rsp, gr_count_regs+120(%rip)
	lea gr_count_stack(%rip), %rsp
	pushfq
	pop gr_count_regs+136(%rip)
	cld
	mov %rax, %rdi
	call gr_count_next
	mov %rax, gr_count_jump(%rip)
	mov gr_count_regs(%rip), %r8
	mov gr_count_regs+8(%rip), %r9
	mov gr_count_regs+16(%rip), %r10
	mov gr_count_regs+24(%rip), %r11
	mov gr_count_regs+32(%rip), %r12
	mov gr_count_regs+40(%rip), %r13
	mov gr_count_regs+48(%rip), %r14
	mov gr_count_regs+56(%rip), %r15
	mov gr_count_regs+64(%rip), %rdi
	mov gr_count_regs+72(%rip), %rsi
	mov gr_count_regs+80(%rip), %rbp
	mov gr_count_regs+88(%rip), %rbx
	mov gr_count_regs+96(%rip), %rdx
	mov gr_count_regs+104(%rip), %rax
	mov gr_count_regs+112(%rip), %rcx
	push gr_count_regs+136(%rip)
	popfq
	mov gr_count_regs+120(%rip), %rsp
	jmp *gr_count_jump(%rip)
	.size gr_count_glue, .-gr_count_glue

	.section .note.GNU-stack, "", @progbits
