// Numbers that C and assembly share; checked against the structures in thread.h.
// Runs in: included by core/entry.S and core/thread.h.
// May call: nothing; macros only.
// Owns: the layout of a thread's block and of the frame an entry builds.
#pragma once

#define GR_OFF_STACK 208 // struct gr_thread.stack
#define GR_OFF_RSP 216   // struct gr_thread.program_rsp
#define GR_OFF_CTX 320   // struct gr_thread.ctx
#define GR_FRAME 160     // sizeof(struct gr_regs)
#define GR_LEVEL 0x4000  // engine stack for one entry; nested entries go below

// a thread's block: pub and private fields, xsave area, stack of the handlers, engine stack
#define GR_BLOCK_XSAVE 0x2000
#define GR_BLOCK_ALTSTACK 0x8000 // of the engine's handlers
#define GR_ALTSTACK 0x8000
#define GR_BLOCK_STACK 0x40000
