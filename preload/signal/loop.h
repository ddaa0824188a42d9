// Delivery between two operations: a thread that computes and comes to none gets its signal where it is.
// Runs in: the engine's handlers, on their stack.
// May call: core, replay.
// Owns: the samples of a recording, the search of a replay.
#pragma once

#include "state.h"

// Recording: one look at a thread that has held a signal for too long. True when `ret` says where it is and how to come
// there again; else it wants another look.
bool gr_loop_look(struct gr_thread *self, const struct gr_context *at, struct gr_state *ret);
void gr_loop_forget(struct gr_thread *self);

// Replaying, at the end of an operation: the thread shall be stopped where it is in this struct gr_state.
void gr_loop_seek(struct gr_thread *self, const void *state);

// Replaying, from SIGTRAP in the program's code: true when the thread is there.
bool gr_loop_there(struct gr_thread *self, const siginfo_t *info, struct gr_context *at, bool in_program);
