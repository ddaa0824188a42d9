// The names of threads: what they call themselves, and the kernel's ids in calls, as the recording has them.
// Runs in: application threads, on the engine's stack.
// May call: core.
// Owns: which arguments are such ids, and which call names its thread.
#pragma once

#include "../call.h"

// Which meaning of an id is tried, and whether the call had an id that has so many: gr_thread_recorded().
struct gr_meaning { uint32_t nth; bool found; };

uint64_t gr_recorded_id(uint64_t id, struct gr_meaning *which);

// Replaying CALL, by which a thread names itself: whoever looks at it sees that name. It changes nothing else.
void gr_name_self(struct gr_call *call);

// Argument POSITION, from 1, of a call: itself, if it names no thread.
uint64_t gr_recorded_argument(const struct gr_call *call, unsigned position, struct gr_meaning *which);
