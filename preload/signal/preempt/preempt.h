// Giving way between two operations, where one thread at a time runs: a thread that comes to none, while others want the turn, is
// stopped where it is. Its stop and its going on are operations; a replay stops it in the same state.
// Runs in: the engine's handlers, on their stack.
// May call: core, log, replay.
// Owns: what is known of loops that wait.
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
enum gr_spin { GR_SPIN_PROVED, GR_SPIN_NONE, GR_SPIN_PAUSES, GR_SPIN_COUNTER };

// Does the thread come back to this state, having changed nothing on the way? Then it would do so for ever. PROVED: `ret` is the state,
// by which words count that the cycle reads or writes. COUNTER: it is not proved and reads the time stamp counter.
// PAUSES: it is not proved and executes `pause`. One at a time: who has the turn.
enum gr_spin gr_spin_look(struct gr_thread *self, const struct gr_context *at, struct gr_state *ret);

// Is it at a `pause` for which that was found before?
bool gr_spin_pauses(const struct gr_context *at);
