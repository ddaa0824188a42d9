// The state of a program between two operations, as far as it can be known again: registers, vector state, memory.
// Runs in: the engine's handlers, on their stack.
// May call: core.
// Owns: struct gr_state, which goes into the event of a signal that was delivered there.
#pragma once

#include "frame.h"

#define GR_STATE_REGISTERS 18 // r8 up to eflags, in the kernel's order

// Follows the siginfo in the event's data.
struct gr_state {
	uint64_t greg[GR_STATE_REGISTERS];
	uint64_t vectors;     // hash
	uint64_t memory;      // hash of what the program may write
	uint64_t pilot;       // a word that only rises or only falls: 1 + number of a register, or an address; 0: none found
	uint64_t pilot_value;
	uint64_t falls;       // the pilot does
};

_Static_assert(sizeof(struct gr_state) == (GR_STATE_REGISTERS + 5) * 8, "written as it is");

void gr_state_take(struct gr_thread *self, const struct gr_context *at, struct gr_state *ret);

// Is this it? Registers are compared first, so a visit that is not it costs little. `looks` counts the others.
bool gr_state_is(struct gr_thread *self, const struct gr_context *at, const struct gr_state *state, uint32_t *looks);

// One word at the pilot's place; false if it is not there.
bool gr_state_pilot(const struct gr_context *at, uint64_t pilot, uint64_t *ret);

// Calls `each` for every readable and writable range of the program's memory that a recording and its replay have alike.
void gr_state_ranges(struct gr_thread *self, const struct gr_context *at, void (*each)(void *arg, uint64_t from, uint64_t to),
		     void *arg);

uint64_t gr_state_page(struct gr_thread *self, uint64_t page, uint64_t from, uint64_t to);

// init.c: what stands on the stack from here up is not the program's.
extern uint64_t gr_state_stack_top;
