// Copies that survive a bad address: a fault in one of the two instructions that read or write the program's memory ends it.
// Runs in: everywhere in the engine.
// May call: nothing.
// Owns: the addresses that gr_copy_recover knows.

// size_t gr_copy(void *dst, const void *src, size_t n): the bytes that were copied.
	.text
	.globl gr_copy
	.hidden gr_copy
	.type gr_copy, @function
gr_copy:
	.cfi_startproc
	mov %rdx, %rcx
	cmp $256, %rcx
	ja gr_copy_bytes                 // long ones: the processor's own loop
1:	cmp $8, %rcx
	jb gr_copy_rest
	.globl gr_copy_load
	.hidden gr_copy_load
gr_copy_load:
	mov (%rsi), %rax
	.globl gr_copy_store
	.hidden gr_copy_store
gr_copy_store:
	mov %rax, (%rdi)
	lea 8(%rsi), %rsi
	lea 8(%rdi), %rdi
	sub $8, %rcx
	jmp 1b
gr_copy_rest:
	test %rcx, %rcx
	jz gr_copy_end
	.globl gr_copy_bytes
	.hidden gr_copy_bytes
gr_copy_bytes:
	rep movsb
	.globl gr_copy_end
	.hidden gr_copy_end
gr_copy_end:
	mov %rdx, %rax
	sub %rcx, %rax
	ret
	.cfi_endproc
	.size gr_copy, .-gr_copy
	.section .note.GNU-stack, "", @progbits
