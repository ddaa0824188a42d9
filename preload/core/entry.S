// Ways into the engine and out of it: the frame, the switch to the engine's stack, births and rebirths.
// Runs in: application threads, with the program's registers live.
// May call: gr_door_c, gr_wrap_c, gr_thread_born, gr_init.
// Owns: the exported wrapper symbols; the gate section.
#include "offsets.h"

	.text

// A program's `syscall` instruction comes here by a trap. rcx: behind the instruction; everything else as at the
// instruction.
	.globl gr_door_trapped
	.hidden gr_door_trapped
	.type gr_door_trapped, @function
gr_door_trapped:
	.cfi_startproc
	.cfi_def_cfa_offset 0
	.cfi_register %rip, %rcx
	mov gr_self@gottpoff(%rip), %r11
	mov %fs:(%r11), %r11
	FRAME %rcx, $0
	call gr_trapped_c
	jmp gr_leave
	.cfi_endproc
	.size gr_door_trapped, .-gr_door_trapped

// A patched site's stub jumps here. rcx: the stub's tail, in front of which stands where the program goes on. Flags
// and everything else are the program's. Where the engine is off the call is made in the stub itself, because a child on
// another stack finds its way back only there.
	.globl gr_door_stub
	.hidden gr_door_stub
	.type gr_door_stub, @function
	.balign 64
	.cfi_startproc
	.cfi_def_cfa_offset 0
	.cfi_escape 0x10, 16, 2, 0x7b, 0x78                    // rip: in front of the tail, in r11
2:	lea -GR_STUB_NATIVE(%r11), %r11
	.cfi_escape 0x10, 16, 2, 0x7b, GR_STUB_NATIVE - 8      // behind where it goes
	jmp *%r11
gr_door_stub:
	.cfi_escape 0x10, 16, 2, 0x72, 0x78                    // rip: in front of the tail, in rcx
	mov %rcx, %r11
	.cfi_escape 0x10, 16, 2, 0x7b, 0x78                    // in r11
	mov gr_self@gottpoff(%rip), %rcx
	mov %fs:(%rcx), %rcx
	jrcxz 2b
	xchg %rcx, %r11
	.cfi_escape 0x10, 16, 2, 0x72, 0x78
	FRAME_TOP %rcx
	.cfi_escape 0x10, 16, 9, 0x7b, (GR_OFF_STACK & 0x7f) | 0x80, GR_OFF_STACK >> 7, 0x06, 0x38, 0x1c, 0x06, 0x38, 0x1c // on top of the stack
	cmp $GR_SYS_NUMBERS, %rax
	jae 5f
	lea gr_quick(%rip), %rcx
	movzbl (%rcx, %rax), %ecx
	test %ecx, %ecx
	jz 5f

	// The short way (syscall/query/query.c): what a function may change is kept, and put back where it declines.
	push %rdi
	push %rsi
	push %rdx
	push %r8
	push %r9
	push %r10
	push %r11
	.cfi_remember_state
	.cfi_escape 0x0f, 4, 0x77, 0xc0, 0, 0x06               // CFA: the program's rsp, at 64
	.cfi_escape 0x10, 16, 6, 0x77, 0xc8, 0, 0x06, 0x38, 0x1c // rip: in front of the tail, which is at 72
	subq $GR_LEVEL, GR_OFF_STACK(%r11)
	cld
	mov %r11, %r8
	mov %rsp, %r9
	call gr_query_quick
	pop %r11
	.cfi_escape 0x0f, 3, 0x77, 0x38, 0x06                  // at 56
	.cfi_escape 0x10, 16, 6, 0x77, 0xc0, 0, 0x06, 0x38, 0x1c // at 64
	addq $GR_LEVEL, GR_OFF_STACK(%r11)
	.cfi_restore_state
	test %edx, %edx
	pop %r10
	pop %r9
	pop %r8
	pop %rdx
	pop %rsi
	pop %rdi
	jz 5f
	mov (%rsp), %r11
	test $0x40500, %r11d             // as in gr_leave
	jnz 6f
	mov %rax, %rcx
	movzbl %r11b, %eax
	shl $8, %eax
	bt $11, %r11d
	setc %al
	add $0x7f, %al
	sahf
	mov %rcx, %rax
7:	mov 16(%rsp), %rcx
	mov 8(%rsp), %rsp
	jmp *%rcx
6:	btr $8, %r11d                    // TF is the engine's, and the program sees r11
	popfq
	lea -8(%rsp), %rsp
	jmp 7b

5:	mov 16(%rsp), %rcx
	FRAME_REST -8(%rcx)
	call gr_door_c

// Leaves by the frame at %rsp: every register from it, rcx and r11 as the kernel leaves them. A stub's tail sets rcx.
gr_leave:
	mov gr_self@gottpoff(%rip), %r11
	mov %fs:(%r11), %r11
	test %r11, %r11
	jz 1f                            // a fork's child: it never comes back
	addq $GR_LEVEL, GR_OFF_STACK(%r11)
1:	mov 8(%rsp), %rbx
	mov 24(%rsp), %rdx
	mov 32(%rsp), %rsi
	mov 40(%rsp), %rdi
	mov 48(%rsp), %rbp
	mov 64(%rsp), %r8
	mov 72(%rsp), %r9
	mov 80(%rsp), %r10
	mov 96(%rsp), %r12
	mov 104(%rsp), %r13
	mov 112(%rsp), %r14
	mov 120(%rsp), %r15
	mov 128(%rsp), %rcx
	mov GR_FRAME_TAIL(%rsp), %rax
	mov 136(%rsp), %r11
	test %rax, %rax
	cmovnz %rax, %rcx
	test $0x40500, %r11d             // AC, DF, TF: only popf sets them, which costs as much as all the rest
	jnz 3f
	movzbl %r11b, %eax
	shl $8, %eax
	bt $11, %r11d
	setc %al
	add $0x7f, %al                   // sets OF if it was set
	sahf                             // and the other five
4:	mov (%rsp), %rax
	.cfi_remember_state
	mov 56(%rsp), %rsp
	.cfi_def_cfa %rsp, 0
	OUT_OF_FRAME
	.cfi_register %rip, %rcx
	jmp *%rcx
	.cfi_restore_state
3:	push %r11
	btr $8, %r11d                    // as above
	popfq
	jmp 4b
	.cfi_endproc
	.size gr_door_stub, .-gr_door_stub

	.set gr_wrap_number, 0 // the exported wrappers; eax: which one
	.irp name, mutex_lock, mutex_unlock, spin_lock, spin_trylock, spin_unlock, rwlock_rdlock, rwlock_tryrdlock, rwlock_unlock, \
		cond_signal, cond_broadcast, once; .set gr_own_pthread_\name, 1; .endr // in sync/quick.S, which may come here
	.irp name, sem_wait, sem_trywait, sem_post; .set gr_own_\name, 1; .endr
#define WRAP(name, version, op, doc) \
	.type gr_plain_##name, @function; gr_plain_##name: .cfi_startproc; mov $gr_wrap_number, %eax; jmp gr_wrap; .cfi_endproc; \
	.size gr_plain_##name, .-gr_plain_##name; .globl gr_plain_##name; .hidden gr_plain_##name; \
	.ifndef gr_own_##name; .globl name; .type name, @function; .set name, gr_plain_##name; .endif; \
	.set gr_wrap_number, gr_wrap_number + 1;
#include "../tables/wrappers.def"
#undef WRAP

// The exchange between heaps: an operation that no library function stands behind.
	.globl gr_heap_operation
	.hidden gr_heap_operation
	.type gr_heap_operation, @function
gr_heap_operation:
	.cfi_startproc
	mov $(gr_wrap_number + 1), %eax
	jmp gr_wrap
	.cfi_endproc
	.size gr_heap_operation, .-gr_heap_operation

#define WRAP(name, version, op, doc) .quad name;
	.section .data.rel.ro, "aw"
	.globl gr_wrap_entries
	.hidden gr_wrap_entries
gr_wrap_entries:
#include "../tables/wrappers.def"
	.text
#undef WRAP

	.type gr_wrap, @function
gr_wrap:
	.cfi_startproc
	mov gr_self@gottpoff(%rip), %r11
	mov %fs:(%r11), %r11
	test %r11, %r11
	jz 1f
2:	mov (%rsp), %r10
	.cfi_remember_state
	lea 8(%rsp), %rsp                // the return address stays in the red zone
	.cfi_def_cfa_offset 0
	.cfi_register %rip, %r10
	FRAME %r10, $0
	mov %eax, %edx
	call gr_wrap_c
	jmp gr_leave
	.cfi_restore_state
1:	cmp $gr_wrap_number, %eax        // the engine is off for this thread
	jae 3f
	lea gr_real(%rip), %r11
	jmp *(%r11, %rax, 8)
3:	mov gr_left@gottpoff(%rip), %r11 // but it ends what it has begun
	mov %fs:(%r11), %r11
	jmp 2b
	.cfi_endproc
	.size gr_wrap, .-gr_wrap

// The library's function in rax, with the fourth argument in r10: the way out of the engine loses rcx.
	.globl gr_jump
	.hidden gr_jump
	.type gr_jump, @function
gr_jump:
	.cfi_startproc
	mov %r10, %rcx
	jmp *%rax
	.cfi_endproc
	.size gr_jump, .-gr_jump

// The same, and its result comes to the engine before the program has it.
	.globl gr_create_run
	.hidden gr_create_run
	.type gr_create_run, @function
gr_create_run:
	.cfi_startproc
	mov %r10, %rcx
	sub $8, %rsp
	.cfi_adjust_cfa_offset 8
	call *%rax
	add $8, %rsp
	.cfi_adjust_cfa_offset -8
	mov %eax, %edi
	mov $(gr_wrap_number + 4), %eax
	jmp gr_wrap
	.cfi_endproc
	.size gr_create_run, .-gr_create_run

// What happens once runs here, on the program's stack: rsi is the function, (%rsp) where pthread_once was called from.
// The frame has a personality, so that an exception or a cancellation that leaves the function is seen.
	.globl gr_once_run
	.hidden gr_once_run
	.type gr_once_run, @function
gr_once_run:
	.cfi_startproc
	.cfi_personality 0x9b, gr_once_personality_ref
	sub $8, %rsp
	.cfi_adjust_cfa_offset 8
	call *%rsi
	add $8, %rsp
	.cfi_adjust_cfa_offset -8
	mov $(gr_wrap_number + 2), %eax
	jmp gr_wrap
	.cfi_endproc
	.size gr_once_run, .-gr_once_run

// Called by the unwinder, esi: actions; 2 is the phase that cleans up. 8: go on unwinding.
	.type gr_once_personality, @function
gr_once_personality:
	test $2, %esi
	jz 1f
	sub $8, %rsp
	mov $(gr_wrap_number + 3), %eax
	call gr_wrap
	add $8, %rsp
1:	mov $8, %eax
	ret
	.size gr_once_personality, .-gr_once_personality
	.section .data.rel.local, "aw"
	.balign 8
	.type gr_once_personality_ref, @object
gr_once_personality_ref:
	.quad gr_once_personality
	.size gr_once_personality_ref, 8
	.text

// A cancellation: as if the program had called pthread_exit(PTHREAD_CANCELED) from (%rsp), wherever that is.
	.globl gr_canceled
	.hidden gr_canceled
	.type gr_canceled, @function
gr_canceled:
	.cfi_startproc
	push %rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	mov %rsp, %rbp
	.cfi_def_cfa_register %rbp
	and $-16, %rsp
	mov $-1, %rdi
	call pthread_exit@plt
	ud2
	.cfi_endproc
	.size gr_canceled, .-gr_canceled

// The same from between two instructions: 128 bytes below the stack pointer, for what stands there, and the unwinder looks up the
// very instruction, as behind a signal.
	.globl gr_canceled_between
	.hidden gr_canceled_between
	.type gr_canceled_between, @function
gr_canceled_between:
	.cfi_startproc
	.cfi_signal_frame
	.cfi_def_cfa %rsp, 136
	.cfi_offset %rip, -136
	push %rbp
	.cfi_def_cfa_offset 144
	.cfi_offset %rbp, -144
	mov %rsp, %rbp
	.cfi_def_cfa_register %rbp
	cld
	and $-16, %rsp
	mov $-1, %rdi
	call pthread_exit@plt
	ud2
	.cfi_endproc
	.size gr_canceled_between, .-gr_canceled_between

// The constructor: set up, then the main thread's first operation as if the loader had called it.
	.type gr_constructor, @function
gr_constructor:
	push %rdi
	push %rsi
	push %rdx
	call gr_init
	pop %rdx
	pop %rsi
	pop %rdi
	test %al, %al
	jz 1f
	xor %r8d, %r8d                   // what setting up left here depends on mode and order, and digests see it
	xor %r9d, %r9d
	xor %r10d, %r10d
	mov $gr_wrap_number, %eax
	jmp gr_wrap
1:	ret
	.size gr_constructor, .-gr_constructor
	.section .init_array, "aw"
	.quad gr_constructor

// ------------------------------------------------------------------ the gate: every system call of the engine
	.section gr_gate, "ax", @progbits
	.globl gr_raw6
	.hidden gr_raw6
	.type gr_raw6, @function
gr_raw6:
	.cfi_startproc
	mov %rdi, %rax
	mov %rsi, %rdi
	mov %rdx, %rsi
	mov %rcx, %rdx
	mov %r8, %r10
	mov %r9, %r8
	mov 8(%rsp), %r9
	syscall
	pop %rcx                         // no `ret`: the kernel's way out leaves the processor without its predictions of returns
	.cfi_def_cfa_offset 0
	.cfi_register %rip, %rcx
	jmp *%rcx
	.cfi_endproc
	.size gr_raw6, .-gr_raw6

// long gr_wait6(nr, a, b, c, d, e, f, held, cancel): as gr_raw6, but not with *held set, or *cancel 1. The engine's handlers
// know the instructions from gr_wait_check up to gr_wait_done.
	.globl gr_wait6
	.hidden gr_wait6
	.type gr_wait6, @function
gr_wait6:
	.cfi_startproc
	mov %rdi, %rax
	mov %rsi, %rdi
	mov %rdx, %rsi
	mov %rcx, %rdx
	mov %r8, %r10
	mov %r9, %r8
	mov 8(%rsp), %r9
	mov 16(%rsp), %rcx
	mov 24(%rsp), %r11
	.globl gr_wait_check
	.hidden gr_wait_check
gr_wait_check:
	cmpl $0, (%rcx)
	jne 1f
	cmpl $1, (%r11)
	je 1f
	syscall
	.globl gr_wait_done
	.hidden gr_wait_done
gr_wait_done:
	.cfi_remember_state
	pop %rcx
	.cfi_def_cfa_offset 0
	.cfi_register %rip, %rcx
	jmp *%rcx
	.cfi_restore_state
1:	mov $-512, %rax
	ret
	.cfi_endproc
	.size gr_wait6, .-gr_wait6

	.globl gr_restorer
	.hidden gr_restorer
	.type gr_restorer, @function
gr_restorer:
	mov $15, %eax
	syscall
	.size gr_restorer, .-gr_restorer

	.globl gr_sigreturn
	.hidden gr_sigreturn
	.type gr_sigreturn, @function
gr_sigreturn:
	mov %rdi, %rsp
	mov $15, %eax
	syscall
	.size gr_sigreturn, .-gr_sigreturn

// long gr_clone_thread(nr, a, b, c, d, e, child): the child finds its block in r12 and its first frame on its own
// engine stack; it leaves through gr_leave like any other return from a system call.
	.globl gr_clone_thread
	.hidden gr_clone_thread
	.type gr_clone_thread, @function
gr_clone_thread:
	.cfi_startproc
	push %r12
	.cfi_adjust_cfa_offset 8
	.cfi_offset %r12, -16
	mov 16(%rsp), %r12
	mov %rdi, %rax
	mov %rsi, %rdi
	mov %rdx, %rsi
	mov %rcx, %rdx
	mov %r8, %r10
	mov %r9, %r8
	xor %r9d, %r9d
	syscall
	test %rax, %rax
	jz 1f
	.cfi_remember_state
	pop %r12
	.cfi_adjust_cfa_offset -8
	.cfi_restore %r12
	ret
	.cfi_restore_state
1:	mov GR_OFF_STACK(%r12), %rsp
	lea (GR_LEVEL - GR_FRAME)(%rsp), %rsp
	IN_FRAME
	mov %r12, %rdi
	xor %ebp, %ebp
	call gr_thread_born
	jmp gr_leave
	.cfi_endproc
	.size gr_clone_thread, .-gr_clone_thread

	.section .note.GNU-stack, "", @progbits
