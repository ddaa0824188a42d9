// What a mutex looks like on replay, for those that take and give one on the way.
// Runs in: application threads, on the engine's stack.
// May call: nothing.
// Owns: nothing.
#pragma once

#include "op.h"

// Behind a taking that ended with `ret`, and behind a giving.
void gr_mutex_taken(struct gr_thread *self, uint64_t mutex, long ret);
void gr_mutex_given(uint64_t mutex, long ret);

long gr_wrap_pthread_mutex_lock(struct gr_thread *self, struct gr_regs *frame);
