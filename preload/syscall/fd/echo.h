// Output that does not pass the program's memory, or goes out under another name.
// Runs in: application threads while recording, on the engine's stack.
// May call: core.
// Owns: nothing.
#pragma once

#include "../memory/memory.h"

// In front of a call that moves bytes to the output unseen: notes how they will be known (`call->echo`). False: the call is not
// made, and this is its result. Of what is no file and no pipe nobody can know them, so it gets EINVAL, as from a descriptor
// that cannot be spliced from, and the program writes by itself.
bool gr_echo_ready(struct gr_call *call, long *ret);

// Behind it: they become stores of the call.
void gr_echo_keep(struct gr_call *call, struct gr_stores *stores);

// The mark of a descriptor that is the output under another name (/dev/stdout).
uint8_t gr_echo_reopened(const struct gr_call *call);
