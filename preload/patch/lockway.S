// The way from a lock inside the C library to its operation and back.
// Runs in: application threads, with the program's registers live.
// May call: gr_lock_c.
// Owns: nothing.
#include "../core/offsets.h"

	.text

// A lock inside the C library: r11 is its stub, whose thread-locals hold rcx and r11; it calls from below the red zone. Leaves with
// every register as in the frame, rcx and r11 too: by a return to the stub, if gr_lock_c allows it. (An iretq takes 50 ns.)
#define BELOW GR_LOCK_BELOW
	.globl gr_lock_stub; .hidden gr_lock_stub
	.type gr_lock_stub, @function
gr_lock_stub:
	.cfi_startproc
	.cfi_signal_frame                // the program goes on at the very place
	.cfi_def_cfa_offset BELOW
	.cfi_register %rip, %r11
	mov gr_self@gottpoff(%rip), %rcx
	mov %fs:(%rcx), %rcx
	xchg %rcx, %r11
	.cfi_register %rip, %rcx
	lea BELOW(%rsp), %rsp
	.cfi_def_cfa_offset 0
	FRAME %rcx, $0
	mov 56(%rsp), %rax
	mov -BELOW(%rax), %r12
	call gr_lock_c
	mov gr_self@gottpoff(%rip), %r11
	mov %fs:(%r11), %r11
	test %r11, %r11
	jz 2f                            // behind the end of the log
	test %al, %al
	jz 3f
	addq $GR_LEVEL, GR_OFF_STACK(%r11)
	mov 136(%rsp), %r11
	movzbl %r11b, %eax               // as in gr_leave
	shl $8, %eax
	bt $11, %r11d
	setc %al
	add $0x7f, %al
	sahf
	mov 56(%rsp), %rcx
	mov %r12, -BELOW(%rcx)           // whoever wrote there meanwhile
	mov (%rsp), %rax
	mov 8(%rsp), %rbx
	mov 16(%rsp), %rcx
	mov 24(%rsp), %rdx
	mov 32(%rsp), %rsi
	mov 40(%rsp), %rdi
	mov 48(%rsp), %rbp
	mov 64(%rsp), %r8
	mov 72(%rsp), %r9
	mov 80(%rsp), %r10
	mov 88(%rsp), %r11
	mov 96(%rsp), %r12
	mov 104(%rsp), %r13
	mov 112(%rsp), %r14
	mov 120(%rsp), %r15
	mov 56(%rsp), %rsp
	.cfi_def_cfa %rsp, 8 - BELOW
	OUT_OF_FRAME
	.cfi_offset %rip, -8
	lea -BELOW(%rsp), %rsp
	.cfi_def_cfa_offset 8
	ret
	.cfi_endproc
	.size gr_lock_stub, .-gr_lock_stub

// The same by a trap: rcx is where it stands.
	.globl gr_lock_trapped; .hidden gr_lock_trapped
	.type gr_lock_trapped, @function
gr_lock_trapped:
	.cfi_startproc
	.cfi_signal_frame
	.cfi_def_cfa_offset 0
	.cfi_register %rip, %rcx
	mov gr_self@gottpoff(%rip), %r11
	mov %fs:(%r11), %r11
	FRAME %rcx, $0
	call gr_lock_c
	mov gr_self@gottpoff(%rip), %r11
	mov %fs:(%r11), %r11
	test %r11, %r11
	jz 2f
3:
	addq $GR_LEVEL, GR_OFF_STACK(%r11)
2:	pushq $0x2b                      // the kernel's ss and cs for programs
	.cfi_undefined %rip
	pushq 64(%rsp)                   // rsp
	pushq 152(%rsp)                  // eflags
	pushq $0x33
	pushq 160(%rsp)                  // rip
	mov 40(%rsp), %rax
	mov 48(%rsp), %rbx
	mov 56(%rsp), %rcx
	mov 64(%rsp), %rdx
	mov 72(%rsp), %rsi
	mov 80(%rsp), %rdi
	mov 88(%rsp), %rbp
	mov 104(%rsp), %r8
	mov 112(%rsp), %r9
	mov 120(%rsp), %r10
	mov 128(%rsp), %r11
	mov 136(%rsp), %r12
	mov 144(%rsp), %r13
	mov 152(%rsp), %r14
	mov 160(%rsp), %r15
	iretq
	.cfi_endproc
	.size gr_lock_trapped, .-gr_lock_trapped

	.section .note.GNU-stack, "", @progbits
