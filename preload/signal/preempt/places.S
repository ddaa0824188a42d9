// One instruction in a place of its own, with the program's registers; see apart.c.
// Runs in: the engine's handlers, on their stack; a test.
// May call: nothing.
// Owns: the places.
#define REGISTER(n) gr_apart_native + 8 * (n)(%rip)
#define STACK gr_apart_native + 144(%rip)
#define VECTOR gr_apart_native + 152(%rip)
#define VECTORS gr_apart_native + 160(%rip)

	.text
// void gr_apart_run(const void *place, uint64_t flags): comes back when the instruction there has jumped to gr_apart_back. The stack
// pointer stays that of the caller, so a signal finds its stack.
	.globl gr_apart_run
	.hidden gr_apart_run
	.type gr_apart_run, @function
gr_apart_run:
	push %rbx
	push %rbp
	push %r12
	push %r13
	push %r14
	push %r15
	cmpb $0, VECTOR
	je 1f
	fxrstor64 VECTORS
1:	mov %rsp, %rdx
	mov %ss, %eax
	push %rax
	push %rdx
	push %rsi
	mov %cs, %eax
	push %rax
	push %rdi
	mov REGISTER(0), %r8
	mov REGISTER(1), %r9
	mov REGISTER(2), %r10
	mov REGISTER(3), %r11
	mov REGISTER(4), %r12
	mov REGISTER(5), %r13
	mov REGISTER(6), %r14
	mov REGISTER(7), %r15
	mov REGISTER(8), %rdi
	mov REGISTER(9), %rsi
	mov REGISTER(10), %rbp
	mov REGISTER(11), %rbx
	mov REGISTER(12), %rdx
	mov REGISTER(13), %rax
	mov REGISTER(14), %rcx
	iretq
	.globl gr_apart_back
	.hidden gr_apart_back
gr_apart_back:
	mov %r8, REGISTER(0)
	mov %r9, REGISTER(1)
	mov %r10, REGISTER(2)
	mov %r11, REGISTER(3)
	mov %r12, REGISTER(4)
	mov %r13, REGISTER(5)
	mov %r14, REGISTER(6)
	mov %r15, REGISTER(7)
	mov %rdi, REGISTER(8)
	mov %rsi, REGISTER(9)
	mov %rbp, REGISTER(10)
	mov %rbx, REGISTER(11)
	mov %rdx, REGISTER(12)
	mov %rax, REGISTER(13)
	mov %rcx, REGISTER(14)
	pushfq
	pop REGISTER(17)
	cld
	cmpb $0, VECTOR
	je 1f
	fxsave64 VECTORS
1:	pop %r15
	pop %r14
	pop %r13
	pop %r12
	pop %rbp
	pop %rbx
	ret
	.size gr_apart_run, .-gr_apart_run

	.balign 64
	.globl gr_apart_places
	.hidden gr_apart_places
	.type gr_apart_places, @object
gr_apart_places:
	.fill 64 * 32, 1, 0xcc
	.size gr_apart_places, .-gr_apart_places

	.section .note.GNU-stack, "", @progbits
