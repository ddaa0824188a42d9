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
