// Giving way between two operations, where one thread at a time runs: a thread that comes to none, while others want the turn, is
// stopped where it is. Its stop and its going on are operations; a replay stops it in the same state.
// Runs in: the engine's handlers, on their stack.
// May call: core, log, replay.
// Owns: the proof that a thread spins.
#pragma once

#include "../loop/loop.h"

// The flags of a PREEMPT event.
enum gr_preempt {
	GR_PREEMPT_SPIN, // in a cycle that changes nothing: the first pass in this state is as good as any other
	GR_PREEMPT_LOOP, // in a computation: there is one pass in this state
	GR_PREEMPT_WAIT, // the same, at once: it executes `pause`
};

// Recording, from the engine's timer: is it to give way, and can it here?
void gr_preempt_tick(struct gr_thread *self, struct gr_context *at);

// The same, behind a single step of a proof. False if none is under way.
bool gr_preempt_step(struct gr_thread *self, struct gr_context *at);

// A signal is delivered to it first.
void gr_preempt_forget(const struct gr_thread *self, struct gr_context *at);

// Replaying: where the thread shall be stopped in its segment, to give way or to be cancelled; NULL if nowhere.
const void *gr_preempt_next(struct gr_thread *self);

// It is there.
void gr_preempt_again(struct gr_thread *self, struct gr_context *at);

// ---------------------------------------------------------------- canceled.c
// Recording: gr_cancel_on_open. From the engine's timer: false if no cancellation waits for a place between two operations.
void gr_canceled_open(struct gr_thread *self, bool acts);
bool gr_canceled_tick(struct gr_thread *self, struct gr_context *at);

// Behind RESUME, in a recording and in its replay: does it act before it goes on?
void gr_canceled_resume(struct gr_thread *self, struct gr_context *at);

// Replaying, the parts of gr_preempt_next and gr_preempt_again.
const void *gr_canceled_next(struct gr_thread *self);
void gr_canceled_again(struct gr_thread *self, struct gr_context *at);

// ---------------------------------------------------------------- spin.c
enum gr_spin { GR_SPIN_ON, GR_SPIN_PROVED, GR_SPIN_NONE, GR_SPIN_PAUSES, GR_SPIN_COUNTER };

// Single steps of a thread: when it comes back to a state it was in, and has changed nothing on the way, it would do so for ever.
// The first call begins; then once behind each instruction. PROVED: `ret` is the state, by which words count that
// the cycle reads or writes. COUNTER: it is not proved and reads the time stamp counter. PAUSES: it is not proved and executes `pause`.
enum gr_spin gr_spin_begin(struct gr_thread *self, const struct gr_context *at);
enum gr_spin gr_spin_step(struct gr_thread *self, const struct gr_context *at, struct gr_state *ret);

// Is it at a `pause` for which that was found before?
bool gr_spin_pauses(const struct gr_context *at);

// ---------------------------------------------------------------- touch.c
#define GR_TOUCHES 2
struct gr_touch { uint64_t addr, len; };

enum gr_touched { GR_TOUCH_KNOWN, GR_TOUCH_UNKNOWN, GR_TOUCH_COUNTER };

// Which memory the instruction at rip is about to read or write; unused places have length 0. UNKNOWN: it cannot be told, or it does
// more than to compute. COUNTER: it reads the time stamp counter.
enum gr_touched gr_touch(const struct gr_thread *self, const struct gr_context *at, struct gr_touch ret[GR_TOUCHES]);
