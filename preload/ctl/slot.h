// Talking with the controller: announcing a state, waiting for the next command.
// Runs in: the one thread of a replay that has the turn; frozen copies.
// May call: core, raw system calls.
// Owns: the futex words of our slot.
#pragma once

#include <stdint.h>

#include "../abi.h"

void gr_slot_announce(enum gr_slot_state state);

// Waits until cmd_seq differs from *seen, moves *seen on and returns the command.
enum gr_cmd gr_slot_command(uint32_t *seen);

// What an operation mapped, moved, unmapped or dropped: it looks like pages that nobody has written to (ctl/changes.py).
void gr_slot_stretch(uint64_t start, uint64_t end);
