// Delivery in the middle of an operation; see within.c.
// Runs in: application threads, on the engine's stack.
// May call: core, replay.
// Owns: struct gr_within.
#pragma once

#include "frame.h"

// Runs the handler and returns when it has. Does not return when the handler leaves by siglongjmp.
void gr_within_run(struct gr_thread *self, const struct gr_context *at, int sig, const struct gr_siginfo *info,
		   const struct gr_sigact *act);

// Is this the frame of a handler that comes back to the engine?
bool gr_within_is(const struct gr_thread *self, uint64_t context);
_Noreturn void gr_within_back(struct gr_thread *self);

// At an entry from the program: forgets handlers that will not come back.
void gr_within_check(struct gr_thread *self, const struct gr_regs *frame);
