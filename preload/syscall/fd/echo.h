// The program's own output appears again on replay.
// Runs in: application threads, on the engine's stack.
// May call: core, replay.
// Owns: nothing; see echo.c.
#pragma once

#include "../memory/memory.h"

// Replay, in the constructor: the way out is kept where the program cannot close it.
void gr_echo_init(void);

// Replay: writes what the recorded call wrote, if that was output.
void gr_echo(const struct gr_call *call);
void gr_echo_bytes(uint8_t which, const void *bytes, uint64_t len);

// Recording: bytes that go to the output without passing the program's memory become stores of the call.
void gr_echo_keep(const struct gr_call *call, struct gr_stores *stores);

// Recording: a call that would move bytes to the output unseen. It gets EINVAL, as from a descriptor that cannot be
// spliced to, and the program writes by itself.
bool gr_echo_splice(const struct gr_call *call);

// Recording: the mark of a descriptor that is the output under another name (/dev/stdout).
uint8_t gr_echo_reopened(const struct gr_call *call);
