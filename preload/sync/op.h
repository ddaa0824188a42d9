// Operations that carry no data: what the wrappers are made of.
// Runs in: application threads, on the engine's stack.
// May call: core, log, replay.
// Owns: nothing.
#pragma once

#include "../core/guard.h"
#include "../core/ops.h"

// An operation whose place in the order is now, recording or replaying.
void gr_op(struct gr_thread *self, enum gr_op op, uint64_t object);

// Recording: one that has happened, with its result.
void gr_op_log(struct gr_thread *self, enum gr_op op, uint64_t object, long result);

// Replaying: waits for its tick; the recorded result.
long gr_op_result(struct gr_thread *self, enum gr_op op, uint64_t object);

// Replaying: the same, and takes the mutex if the recorded call did.
long gr_op_take_mutex(struct gr_thread *self, enum gr_op op, uint64_t object, uint64_t mutex);
