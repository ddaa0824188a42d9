// The door behind the frame: from a system call's number to what happens to it.
// Runs in: application threads, on the engine's stack.
// May call: core, log, replay.
// Owns: the rule that decides a call's action.
#pragma once

#include "../signal/signal.h"
#include "call.h"

// Executes the call with the program's own arguments.
long gr_call_kernel(const struct gr_call *call);

// The same for a call that may wait; GR_RESTART where it shall be made again behind a handler.
long gr_call_waiting(const struct gr_call *call);

// refine.c: takes away what the kernel does not look at; the effect of the one of many calls that this is.
void gr_call_narrow(struct gr_call *call);
void gr_call_refine(struct gr_call *call);
_Noreturn void gr_refuse_ioctl(const struct gr_call *call);

// record.c: a call that nothing special is to be done about.
void gr_call_record(struct gr_call *call);

// futex.c: what may be missing on replay, because the program's own atomics are no operations.
void gr_futex_init(void);
void gr_futex(struct gr_call *call);
void gr_yield(struct gr_call *call);
// One that is no operation, because the C library's own lock is not, or because of who waits for it; `held` set ends a wait, NULL: nothing does.
long gr_futex_aside(struct gr_thread *self, const uint64_t arg[6], bool waits, const uint32_t *held);

// turns.c: recording, where one thread at a time runs. May this call wait? A futex, as an operation of its own or on behalf
// of one: threads of the program wait for each other in the engine.
bool gr_call_waits(const struct gr_call *call);
bool gr_call_stores_early(const struct gr_call *call); // one that is made on the program's own memory: in front of its end
void gr_call_cores(const struct gr_call *call); // in front of one that may tell, or choose, on which cores a thread runs
gr_wait gr_futex_in_turn, gr_nested_in_turn;

// A call of the library's on behalf of an operation.
long gr_call_nested(const struct gr_call *call);

// clone.c: the library leaves it to the engine to see which thread is the last.
void gr_clone_init(void);

// From entry.S.
void gr_door_c(struct gr_regs *frame, struct gr_thread *self);
void gr_trapped_c(struct gr_regs *frame, struct gr_thread *self);

// sud.c
bool gr_sud_init(void);
void gr_sud_arm(void);
void gr_sud_disarm(void);

// vdso.c: makes the vDSO's functions plain system calls.
void gr_vdso_init(uint64_t vdso);

// A call that the vDSO answers, by its own code: the result, and the `len` bytes that were stored where the call's first pointer leads.
// False where it cannot say, or must not be asked: then nothing has happened.
struct gr_vdso_answer { uint64_t bytes[2]; uint32_t len; };
bool gr_vdso_answers(struct gr_thread *self, long nr, const uint64_t *arg, struct gr_vdso_answer *ret, long *result);

// A nested call trapped at `pc`: if that is the vDSO, the machine's clock cannot be read without one.
void gr_vdso_trapped(uint64_t pc);

// The vDSO's own code reads the time stamp counter, and must not any more.
void gr_vdso_forget(void);

// The halves of an operation pair, for handlers that replace both.
void gr_call_start(struct gr_call *call);
void gr_call_end(struct gr_call *call, struct gr_event *ret);

// Replaying: takes the DATA events behind the end of a call, all of which must lie within `len` bytes at `addr`; with `addr` 0
// within the outputs of the call.
void gr_call_more(struct gr_call *call, uint64_t addr, uint64_t len);
// Replay, behind the end: puts the recorded outputs and stores into memory.
void gr_call_stores(struct gr_call *call, const struct gr_event *ev);

_Noreturn void gr_refuse(struct gr_call *call);
