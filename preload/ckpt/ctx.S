// Other stacks: a call on one, and a thread that is made again.
// Runs in: application threads, frozen copies.
// May call: nothing.
// Owns: nothing; what makes system calls is part of the gate.
#include "../core/offsets.h"

	.text
	.globl gr_call_on
	.hidden gr_call_on
	.type gr_call_on, @function
gr_call_on:
	mov %rdi, %rsp
	mov %rdx, %rdi
	call *%rsi
	ud2
	.size gr_call_on, .-gr_call_on

	.section gr_gate, "ax", @progbits
// long gr_clone_remake(flags, stack, ptid, ctid, tls, thread): the new thread goes straight on in its saved context.
	.globl gr_clone_remake
	.hidden gr_clone_remake
	.type gr_clone_remake, @function
gr_clone_remake:
	push %r12
	mov %r9, %r12
	mov %rcx, %r10
	mov $56, %eax
	syscall
	test %rax, %rax
	jz 1f
	pop %r12
	ret
1:	lea GR_OFF_CTX(%r12), %rdi
	jmp gr_ctx_restore
	.size gr_clone_remake, .-gr_clone_remake

	.section .note.GNU-stack, "", @progbits
