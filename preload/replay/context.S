// Where a thread stands: its context, saved and taken up again, and the place at which a debugger learns of it.
// Runs in: application threads, at the gate; woken copies.
// May call: nothing.
// Owns: struct gr_ctx as it is laid out in core/thread.h.

	.text
	.globl gr_ctx_save
	.hidden gr_ctx_save
	.type gr_ctx_save, @function
gr_ctx_save:
	mov %rbx, (%rdi)
	mov %rbp, 8(%rdi)
	mov %r12, 16(%rdi)
	mov %r13, 24(%rdi)
	mov %r14, 32(%rdi)
	mov %r15, 40(%rdi)
	lea 8(%rsp), %rdx
	mov %rdx, 48(%rdi)
	mov (%rsp), %rdx
	mov %rdx, 56(%rdi)
	xor %eax, %eax
	ret
	.size gr_ctx_save, .-gr_ctx_save

	.globl gr_ctx_restore
	.hidden gr_ctx_restore
	.type gr_ctx_restore, @function
gr_ctx_restore:
	mov (%rdi), %rbx
	mov 8(%rdi), %rbp
	mov 16(%rdi), %r12
	mov 24(%rdi), %r13
	mov 32(%rdi), %r14
	mov 40(%rdi), %r15
	mov 48(%rdi), %rsp
	mov $1, %eax
	jmp *56(%rdi)
	.size gr_ctx_restore, .-gr_ctx_restore

// Stops a leaf for its debugger: the controller knows the address behind the int3.
	.globl gr_debug_trap
	.hidden gr_debug_trap
	.type gr_debug_trap, @function
gr_debug_trap:
	int3
	.globl gr_debug_trapped
	.hidden gr_debug_trapped
gr_debug_trapped:
	ret
	.size gr_debug_trap, .-gr_debug_trap

// A debugger's process stops: rdi says at what (enum gr_debug_where), rsi at which one. At a signal rdx says what came with it, and the
// controller sets rax where it is to be forgotten.
	.globl gr_debug_call
	.hidden gr_debug_call
	.type gr_debug_call, @function
gr_debug_call:
	xor %eax, %eax
	int3
	.globl gr_debug_called
	.hidden gr_debug_called
gr_debug_called:
	ret
	.size gr_debug_call, .-gr_debug_call

	.section .note.GNU-stack, "", @progbits
