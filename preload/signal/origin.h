// The way back for a search that went too far: a copy of the process as it was.
// Runs in: the engine's handlers of a replay, on their stack.
// May call: core.
// Owns: the copy, a process that only sleeps.
#pragma once

#include "state.h"

// Keeps the state. Does nothing in a process of several threads, whose copy would be of one only.
void gr_origin_keep(struct gr_thread *self, const struct gr_context *at);

// Puts it back: memory, registers, vector state. False if none is kept.
bool gr_origin_return(struct gr_thread *self, struct gr_context *at);
void gr_origin_drop(void);
