// The door behind the frame: from a system call's number to what happens to it.
// Runs in: application threads, on the engine's stack.
// May call: core, log, replay.
// Owns: the rule that decides a call's action.
#pragma once

#include "call.h"


// Executes the call with the program's own arguments.
long gr_call_kernel(const struct gr_call *call);

// signal.c: executed in recording and replay alike.
long gr_sigaction(struct gr_call *call);
long gr_sigprocmask(struct gr_call *call);
void gr_fault_init(void);

// sud.c
bool gr_sud_init(void);
void gr_sud_arm(void);

// vdso.c: makes the vDSO's functions plain system calls.
void gr_vdso_init(uint64_t vdso);

// The halves of an operation pair, for handlers that replace both.
void gr_call_start(struct gr_call *call);
void gr_call_end(struct gr_call *call, struct gr_event *ret);

// Replay, behind the end: puts the recorded outputs and stores into memory.
void gr_call_stores(struct gr_call *call, const struct gr_event *ev);

_Noreturn void gr_refuse(struct gr_call *call);
