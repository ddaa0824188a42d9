// Conditions of a hit: GDB's agent bytecode, and registers.
// Runs in: the SIGTRAP handler of a worker, in whatever the hit interrupted.
// May call: core.
// Owns: nothing.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ucontext.h>

#include "../abi.h"

// Is the condition met, with these registers? One that cannot be evaluated (memory that is not there, a division by zero)
// is, as for GDB's own server: better a hit too many than one that was passed over.
bool gr_condition_met(const uint8_t *code, size_t len, const struct gr_regs *regs);

// Are they the wanted ones, or what these mean in the recording?
bool gr_same_registers(const struct gr_regs *want, const struct gr_regs *meant, const greg_t *have);
