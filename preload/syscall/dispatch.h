// The door behind the frame: from a system call's number to what happens to it.
// Runs in: application threads, on the engine's stack.
// May call: core, log, replay.
// Owns: the rule that decides a call's action.
#pragma once

#include "call.h"


// Executes the call with the program's own arguments.
long gr_call_kernel(const struct gr_call *call);

// clone.c. Each replaces both operations of its call.
void gr_clone(struct gr_call *call, uint64_t flags, uint64_t stack, uint64_t ptid, uint64_t ctid, uint64_t tls);
void gr_clone3(struct gr_call *call);
void gr_exit(struct gr_call *call);

// memory.c: what a replay does instead of the recorded call, so that memory looks the same. `ev` is its SYS_END.
void gr_map_log(struct gr_call *call, struct gr_event *ev, bool contents);
long gr_map_again(struct gr_call *call, const struct gr_event *ev, bool contents);
long gr_remap_again(struct gr_call *call, const struct gr_event *ev);

// futex.c: what may be missing on replay, because the program's own atomics are no operations.
void gr_futex_init(void);
void gr_futex(struct gr_call *call);
void gr_yield(struct gr_call *call);

// clone.c: the library leaves it to the engine to see which thread is the last.
void gr_clone_init(void);

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

_Noreturn void gr_refuse(struct gr_call *call);
