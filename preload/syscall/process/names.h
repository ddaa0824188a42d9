// The threads that a call names by the kernel's ids, as the recording names them.
// Runs in: application threads, on the engine's stack.
// May call: core.
// Owns: which arguments are such ids.
#pragma once

#include "../call.h"

// Which meaning of an id is tried, and whether the call had an id that has so many: gr_thread_recorded().
struct gr_meaning { uint32_t nth; bool found; };

uint64_t gr_recorded_id(uint64_t id, struct gr_meaning *which);

// Argument POSITION, from 1, of a call: itself, if it names no thread.
uint64_t gr_recorded_argument(const struct gr_call *call, unsigned position, struct gr_meaning *which);
