// What an instruction means, as far as memory goes.
// Runs in: the engine's handlers, on their stack; a test.
// May call: core's copies, patch's decoder.
// Owns: nothing.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define GR_TOUCHES 2
#define GR_TOUCH_LONGEST 15

struct gr_touch { uint64_t addr, len; };

enum gr_touched { GR_TOUCH_KNOWN, GR_TOUCH_UNKNOWN, GR_TOUCH_COUNTER };

struct gr_meaning {
	uint8_t code[GR_TOUCH_LONGEST + 16]; // zeros behind what is there
	uint8_t length, kind;                // as gr_decode says
	int32_t rel;
	uint8_t opcode, rex, modrm; // the last two 0 where there is none
	uint8_t opcode_at, modrm_at, operand_end; // offsets of the opcode without 0f, of ModRM, and behind it and what belongs to it
	bool escaped, vector, size16, fs;
	bool memory; // the ModRM operand is in memory: the first of `touch`, if any; address is its address
	uint64_t address;
	struct gr_touch touch[GR_TOUCHES]; // about to be read or written; unused ones have length 0
};

// The instruction at rip. Only integer instructions and plain SSE ones are known: loops that wait are made of them. UNKNOWN: it
// cannot be told, or it does more than to compute. COUNTER: it reads the time stamp counter.
enum gr_touched gr_touch(const uint64_t *greg, uint64_t fs_base, struct gr_meaning *ret);

// The value of a register by its number in instructions.
uint64_t *gr_touch_register(uint64_t *greg, unsigned number);
