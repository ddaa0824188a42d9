// Numbers that C and assembly share; checked against the structures in thread.h.
// Runs in: included by core/entry.S and core/thread.h.
// May call: nothing; macros only.
// Owns: the layout of a thread's block and of the frame an entry builds.
#pragma once

#define GR_OFF_STACK 224 // struct gr_thread.stack
#define GR_OFF_RSP 232   // struct gr_thread.program_rsp
#define GR_OFF_NEST 240  // struct gr_thread.nest, and .held behind it
#define GR_OFF_CANCEL 248 // struct gr_thread.cancel
#define GR_OFF_WORD 256  // struct gr_thread.word
#define GR_OFF_CHUNK 288 // struct gr_thread.chunk
#define GR_OFF_CTX 352   // struct gr_thread.ctx
#define GR_OFF_STASH 416 // struct gr_thread.stash.signals
#define GR_OFF_TID 8     // struct gr_thread_pub.tid
#define GR_OFF_OPS 32    // struct gr_thread_pub.ops
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
