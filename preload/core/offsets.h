// Numbers that C and assembly share, checked against the structures in thread.h, and how an entry builds its frame.
// Runs in: included by the assembly's files and by core/thread.h.
// May call: nothing; macros only.
// Owns: the layout of a thread's block and of the frame an entry builds.
#pragma once

#define GR_LOCK_BELOW (128 + 8) // patch/lockway.S: below the red zone, the return address of a stub

#define GR_OFF_STACK 224 // struct gr_thread.stack
#define GR_OFF_RSP 232   // struct gr_thread.program_rsp
#define GR_OFF_NEST 240  // struct gr_thread.nest, and .held behind it
#define GR_OFF_CANCEL 248 // struct gr_thread.cancel, and .turn behind it
#define GR_OFF_WORD 256  // struct gr_thread.word
#define GR_OFF_CHUNK 288 // struct gr_thread.chunk
#define GR_OFF_CTX 352   // struct gr_thread.ctx
#define GR_OFF_STASH 416 // struct gr_thread.stash.signals
#define GR_OFF_TID 8     // struct gr_thread_pub.tid
#define GR_OFF_OPS 32    // struct gr_thread_pub.ops
#define GR_OFF_TICK 24   // struct gr_thread_pub.tick
#define GR_OFF_RECORDED 12 // struct gr_thread_pub.recorded_tid
#define GR_OFF_LEFT 304  // struct gr_thread.left
#define GR_OFF_RUN 936   // struct gr_thread.run_left, then .run_hash
#define GR_OFF_QUICK 948 // struct gr_thread.quick
#define GR_REPLAY_LEFT 8 // struct gr_replay.left
#define GR_REPLAY_TICK 16 // struct gr_replay.tick
#define GR_SLOT_TICK 32  // struct gr_slot.tick
#define GR_CHUNK_RUN 32  // struct gr_chunk.run
#define GR_RUN_MOST 1024 // the same as in abi.h, or it does not compile
#define GR_RUN_PRIME 0x9e3779b1
#define GR_FRAME 160     // sizeof(struct gr_regs)
#define GR_WRAP_FLAGS 0x246 // behind a wrapper: interrupts on, ZF and PF as a register's clearing leaves them
#define GR_FRAME_TAIL 152 // its gs_base: where the door goes on instead of rip, if not 0 (a patched site's stub)
#define GR_SYS_NUMBERS 512 // GR_SYS_MAX
#define GR_LEVEL 0x4000  // engine stack for one entry; nested entries go below

// a thread's block: pub and private fields, xsave area, stack of the handlers, engine stack
#define GR_BLOCK_XSAVE 0x2000
#define GR_BLOCK_ALTSTACK 0x8000 // of the engine's handlers
#define GR_ALTSTACK 0x8000
#define GR_BLOCK_STACK 0x40000

// stubs of patched call sites
#define GR_STUBS_SIZE 0x20000
#define GR_STUB_MOVED_AT 7 // what the jump replaced stands so far behind its tail
#define GR_STUB_NATIVE 12 // a stub's own syscall instruction stands so far in front of its tail

// stubs of the locks inside the C library
#define GR_LOCKSTUBS_SIZE 0x20000

// stacks of threads, above the heaps (heap/stack.c)
#define GR_STACKS_ADDR 0x520000000000
#define GR_STACKS_END 0x540000000000

#ifdef __ASSEMBLER__
// Builds the frame on the engine's stack. %r11 holds the thread, %rsp the program's, `goes_on` where the program goes
// on, `tail` the stub that it goes on by, or 0. Flags are untouched until they are saved.
.macro FRAME goes_on, tail
	FRAME_TOP \tail
	FRAME_REST \goes_on
.endm

// The upper end of the frame: the tail as its gs_base, the program's stack pointer where fs_base will be, the flags.
.macro FRAME_TOP tail
	mov %rsp, GR_OFF_RSP(%r11)
	mov GR_OFF_STACK(%r11), %rsp
	.cfi_escape 0x0f, 4, 0x7b, (GR_OFF_RSP & 0x7f) | 0x80, GR_OFF_RSP >> 7, 0x06 // CFA: what was just kept
	pushq \tail
	pushq GR_OFF_RSP(%r11)
	pushfq
	testb $4, 2(%rsp)                // AC, which the kernel clears, too: the engine's accesses are not all aligned
	jz 9f
	pushfq
	andl $~0x40000, (%rsp)
	popfq
9:
.endm

.macro FRAME_REST goes_on
	pushq \goes_on
	push %r15
	push %r14
	push %r13
	push %r12
	push %r11
	push %r10
	push %r9
	push %r8
	push GR_OFF_RSP(%r11)
	push %rbp
	push %rdi
	push %rsi
	push %rdx
	push %rcx
	push %rbx
	push %rax
	IN_FRAME
	subq $GR_LEVEL, GR_OFF_STACK(%r11)
	cld
	mov %rsp, %rdi
	mov %r11, %rsi
.endm

// For unwinders, and gdbrr/rsp/unwind: with %rsp at a frame, the program is where its registers say.
.macro IN_FRAME
	.cfi_escape 0x0f, 3, 0x77, 56, 0x06              // CFA: the frame's rsp
	.cfi_escape 0x10, 3, 2, 0x77, 8                  // rbx
	.cfi_escape 0x10, 6, 2, 0x77, 48                 // rbp
	.cfi_escape 0x10, 12, 3, 0x77, 0xe0, 0           // r12 at 96
	.cfi_escape 0x10, 13, 3, 0x77, 0xe8, 0           // r13
	.cfi_escape 0x10, 14, 3, 0x77, 0xf0, 0           // r14
	.cfi_escape 0x10, 15, 3, 0x77, 0xf8, 0           // r15
	.cfi_escape 0x10, 16, 3, 0x77, 0x80, 1           // rip at 128
.endm

// The same: the registers that functions keep are the program's again.
.macro OUT_OF_FRAME
	.cfi_same_value %rbx
	.cfi_same_value %rbp
	.cfi_same_value %r12
	.cfi_same_value %r13
	.cfi_same_value %r14
	.cfi_same_value %r15
.endm
#endif
