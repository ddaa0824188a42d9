// Primitives without a frame: the way that nearly all operations on them take while recording.
// Runs in: application threads, with the program's registers live, on its stack.
// May call: gr_mutex_edge, gr_mutex_wake, gr_quick_*, on the engine's stack.
// Owns: the symbols of those functions.
//
// On replay the same for operations of a run that nobody has to look at one by one (gr_gate_quick).
//
// A normal mutex that is free, or that nobody waits for, while recording: the library's few instructions and one more
// operation of the thread's run (log/edge.h). Everything else goes the way of all wrappers, from the start. Nothing is
// written to the program's stack, and registers are left as gr_wrap_c leaves them.
#include "../core/offsets.h"

#define OP(name, doc) .set GR_OP_##name, gr_op_number; .set gr_op_number, gr_op_number + 1;
	.set gr_op_number, 0
#include "../tables/ops.def"
#undef OP

#define MUTEX_OWNER 8
#define MUTEX_USERS 12
#define MUTEX_KIND 16
#define MUTEX_WORD 32

// r11: the thread. Elsewhere: where the engine is off, it replays, a signal is held, others want the turn, another kind of mutex.
.macro QUICK_ENTER elsewhere, counting
	mov gr_self@gottpoff(%rip), %r11
	mov %fs:(%r11), %r11
	test %r11, %r11
	jz \elsewhere
	cmpb $0, \counting(%rip)
	je \elsewhere
	cmpq $0, GR_OFF_NEST(%r11)
	jne \elsewhere
	cmpq $0, GR_OFF_CANCEL(%r11)
	jne \elsewhere
	cmpq $0, GR_OFF_STASH(%r11)
	jne \elsewhere
.endm

.macro QUICK_ENTER_MUTEX elsewhere, again
	QUICK_ENTER \again, gr_counting
	cmpl $0, MUTEX_KIND(%rdi)
	jne \elsewhere
.endm

// One more of the run, with a number from ops.def; `edge` where it takes more than that.
.macro QUICK_COUNT op, edge
	mov MUTEX_WORD(%rdi), %rax
	cmp GR_OFF_WORD(%r11), %rax
	jne \edge
	mov GR_OFF_CHUNK(%r11), %rcx
	mov GR_CHUNK_RUN(%rcx), %rax
	lea \op(%rax, %rdi), %edx
	imul $GR_RUN_PRIME, %edx, %edx
	shr $32, %rax
	cmp $GR_RUN_MOST, %eax
	jae \edge
	inc %rax
	shl $32, %rax
	or %rdx, %rax
	mov %rax, GR_CHUNK_RUN(%rcx)
	incq GR_OFF_OPS(%r11)
.endm

// On replay: `elsewhere` unless this is an operation that is only counted.
.macro QUICK_AGAIN elsewhere
	test %r11, %r11
	jz \elsewhere
	cmpl $0, GR_OFF_QUICK(%r11)
	je \elsewhere
	cmpl $0, GR_OFF_NEST(%r11)
	jne \elsewhere
	cmpl $0, GR_OFF_CANCEL(%r11)
	jne \elsewhere
	cmpl $0, MUTEX_KIND(%rdi)
	jne \elsewhere
	cmpb $0, gr_quick_known(%rip)
	je 8f
	mov GR_OFF_WORD(%r11), %rax
	cmp MUTEX_WORD(%rdi), %rax
	jne \elsewhere
8:
.endm

// It has its tick: what gr_gate_next counts for each. The mutex gets the word of the recording.
.macro QUICK_TICK op
	mov GR_OFF_WORD(%r11), %rax
	mov %rax, MUTEX_WORD(%rdi)
	mov GR_OFF_RUN + 4(%r11), %edx
	lea \op(%rdx, %rdi), %edx
	imul $GR_RUN_PRIME, %edx, %edx
	mov %edx, GR_OFF_RUN + 4(%r11)
	decl GR_OFF_QUICK(%r11)
	decl GR_OFF_RUN(%r11)
	decq GR_OFF_LEFT(%r11)
	incq GR_OFF_OPS(%r11)
	mov gr_slot(%rip), %rcx
	mov gr_replay + GR_REPLAY_TICK(%rip), %rax
	mov %rax, GR_OFF_TICK(%r11)
	inc %rax
	mov %rax, gr_replay + GR_REPLAY_TICK(%rip)
	decl gr_replay + GR_REPLAY_LEFT(%rip)
	mov %rax, GR_SLOT_TICK(%rcx)
.endm
	.hidden gr_replay, gr_slot, gr_quick_known

// Into C, on the engine's stack. rdi, r11 as above, and still so behind it.
.macro QUICK_CALL function
	mov %rsp, GR_OFF_RSP(%r11)
	mov GR_OFF_STACK(%r11), %rsp
	push %rdi
	push %r11
	call \function
	pop %r11
	pop %rdi
	mov GR_OFF_RSP(%r11), %rsp
.endm

// INVARIANT(registers-behind-a-wrapper): as gr_wrap_c says.
.macro QUICK_LEAVE
	mov (%rsp), %rcx
	mov $GR_WRAP_FLAGS, %r11d
	xor %edx, %edx
	xor %esi, %esi
	xor %edi, %edi
	xor %r8d, %r8d
	xor %r9d, %r9d
	xor %r10d, %r10d
	xor %eax, %eax
	ret
.endm

	.text
	.balign 64
	.globl gr_quick_start // a fault from here on is met where nothing has been done yet
	.hidden gr_quick_start
gr_quick_start:
	.globl pthread_mutex_lock
	.type pthread_mutex_lock, @function
pthread_mutex_lock:
	.cfi_startproc
	QUICK_ENTER_MUTEX gr_plain_pthread_mutex_lock, 5f
	xor %eax, %eax
	mov $1, %ecx
	lock cmpxchg %ecx, (%rdi)
	jne gr_plain_pthread_mutex_lock
	mov GR_OFF_TID(%r11), %eax
	mov %eax, MUTEX_OWNER(%rdi)
	incl MUTEX_USERS(%rdi)
	cmpb $0, gr_counting(%rip)          // behind the taking: who closed the log may have had it last
	je 2f
	QUICK_COUNT GR_OP_MUTEX_LOCK, 1f
2:	QUICK_LEAVE
1:	mov %rdi, %rsi
	mov $GR_OP_MUTEX_LOCK, %edx
	QUICK_CALL gr_quick_edge
	jmp 2b
5:	QUICK_AGAIN gr_plain_pthread_mutex_lock
	cmpl $0, (%rdi)
	jne gr_plain_pthread_mutex_lock
	movl $1, (%rdi)
	mov GR_OFF_RECORDED(%r11), %eax
	mov %eax, MUTEX_OWNER(%rdi)
	incl MUTEX_USERS(%rdi)
	QUICK_TICK GR_OP_MUTEX_LOCK
	QUICK_LEAVE
	.cfi_endproc
	.size pthread_mutex_lock, .-pthread_mutex_lock

	.balign 64
	.globl pthread_mutex_unlock
	.type pthread_mutex_unlock, @function
pthread_mutex_unlock:
	.cfi_startproc
	QUICK_ENTER_MUTEX gr_plain_pthread_mutex_unlock, 5f
	QUICK_COUNT GR_OP_MUTEX_UNLOCK, 1f
2:	movl $0, MUTEX_OWNER(%rdi)
	decl MUTEX_USERS(%rdi)
	xor %eax, %eax
	xchg %eax, (%rdi)
	cmp $1, %eax
	jg 3f
4:	QUICK_LEAVE
1:	mov %rdi, %rsi
	mov $GR_OP_MUTEX_UNLOCK, %edx
	QUICK_CALL gr_quick_edge
	jmp 2b
3:	QUICK_CALL gr_mutex_wake         // others wait
	jmp 4b
5:	QUICK_AGAIN gr_plain_pthread_mutex_unlock
	cmpl $1, (%rdi)
	jne gr_plain_pthread_mutex_unlock
	cmpl $0, MUTEX_USERS(%rdi)
	je gr_plain_pthread_mutex_unlock
	movl $0, (%rdi)
	movl $0, MUTEX_OWNER(%rdi)
	decl MUTEX_USERS(%rdi)
	QUICK_TICK GR_OP_MUTEX_UNLOCK
	QUICK_LEAVE
	.cfi_endproc
	.size pthread_mutex_unlock, .-pthread_mutex_unlock

gr_quick_edge:
	mov %r11, %rdi
	jmp gr_mutex_edge

// Other primitives: gr_quick_NAME does it all, or says that it did nothing. There %rdi is the thread, as a second argument
// the object.
.macro QUICK name, second
	.balign 64
	.globl \name
	.type \name, @function
\name:
	.cfi_startproc
	QUICK_ENTER gr_plain_\name, gr_counting_cells
	testb $0, (%rdi)                 // one that is not there faults here, with the program's registers
	QUICK_CALL 7f
	test %al, %al
	jz gr_plain_\name
	QUICK_LEAVE
7:	.ifnb \second                    // an argument that the slow way needs
	push %rsi
	.endif
	mov %rdi, %rsi
	mov %r11, %rdi
	.ifb \second
	jmp gr_quick_\name
	.else
	call gr_quick_\name
	pop %rsi
	ret
	.endif
	.cfi_endproc
	.size \name, .-\name
.endm

	QUICK pthread_spin_lock
	QUICK pthread_spin_trylock
	QUICK pthread_spin_unlock
	QUICK sem_wait
	QUICK sem_trywait
	QUICK sem_post
	QUICK pthread_rwlock_rdlock
	QUICK pthread_rwlock_tryrdlock
	QUICK pthread_rwlock_unlock
	QUICK pthread_cond_signal
	QUICK pthread_cond_broadcast
	QUICK pthread_once, second

	.globl gr_quick_end
	.hidden gr_quick_end
gr_quick_end:

	.section .note.GNU-stack, "", @progbits
