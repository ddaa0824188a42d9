// Single instructions, executed apart from the program: on copies of its registers and of the memory that they use, so nothing is
// changed. A step takes less than a microsecond; one of the processor takes ten, and below a debugger a hundred and more, where it may
// be told twice or not at all, too.
// Runs in: the engine's handlers, on their stack; a test, beside a process that it traces.
// May call: core, patch's decoder and writer of text.
// Owns: the copies.
#pragma once

#include "../loop/loop.h"
#include "touch.h"

#define GR_APART_WORDS 512
#define GR_APART_VECTORS 416 // of the 512 bytes that fxsave writes, those that have a meaning

struct gr_apart {
	uint64_t greg[GR_STATE_REGISTERS];
	uint8_t vectors[GR_APART_VECTORS];
	uint32_t count; // words that were touched
	struct { uint64_t addr, was, now; } word[GR_APART_WORDS];
};

// The copies are those of this context, without a word. False if its vector state is not to be had.
bool gr_apart_begin(const uint64_t *greg, const void *vectors);

// Executes the instruction at rip. KNOWN: it did.
enum gr_touched gr_apart_step(uint64_t fs_base);
void gr_apart_end(void);

extern struct gr_apart gr_apart;

// The instruction that was executed last was `pause`.
bool gr_apart_paused(void);
