// Births and deaths of threads and processes.
// Runs in: application threads, on the engine's stack.
// May call: core, log, replay.
// Owns: nothing; see clone.c, child.c and exec.c.
#pragma once

#include "../memory/memory.h"

// clone.c. Each replaces both operations of its call.
void gr_clone(struct gr_call *call, uint64_t flags, uint64_t stack, uint64_t ptid, uint64_t ctid, uint64_t tls);
void gr_clone3(struct gr_call *call);
void gr_exit(struct gr_call *call);

// Both in a recording and in its replay, in front of the call, the first of a thread of the C library's; and in the middle of it: the list
// of robust mutexes is here from now on.
void gr_robust_begin(const struct gr_call *call);
long gr_robust_list(struct gr_call *call);
long gr_tid_address(struct gr_call *call);

// Behind a call of a thread that has made another one.
void gr_clone_follow(const struct gr_call *call);

// child.c: a child that the program believes to share its memory.
// In front of the clone: the area for its report; 0 when there is no room.
uint64_t gr_child_prepare(struct gr_thread *parent);
// In the child, before the program's code.
void gr_child_born(struct gr_thread *self);
// In the parent, behind the child's exec or end: what it stored. The area is given back by gr_child_forget.
const uint8_t *gr_child_report(struct gr_thread *parent, uint64_t *len);
void gr_child_forget(struct gr_thread *parent);
// It wanted to be traced, and ended there.
bool gr_child_traced(const struct gr_thread *parent);

// A system call of a process that is not recorded.
long gr_child_call(struct gr_call *call);

// repeat.c: replay, behind a recorded call: what it changed for the process itself, as how far its stack may grow.
void gr_call_repeat(const struct gr_call *call);

// exec.c: what execve answers where there is no such program, while recording; where there is one it is refused. On replay
// that result, which is there already.
long gr_exec(struct gr_call *call);
