// Output that does not pass the program's memory, or goes out under another name.
// Runs in: application threads while recording, on the engine's stack.
// May call: core.
// Owns: nothing.
#pragma once

#include "../memory/memory.h"

// Bytes that go to the output without passing the program's memory become stores of the call.
void gr_echo_keep(const struct gr_call *call, struct gr_stores *stores);

// A call that would move bytes to the output unseen. It gets EINVAL, as from a descriptor that cannot be
// spliced to, and the program writes by itself.
bool gr_echo_splice(const struct gr_call *call);

// The mark of a descriptor that is the output under another name (/dev/stdout).
uint8_t gr_echo_reopened(const struct gr_call *call);
