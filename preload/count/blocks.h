// Blocks: the program's code in copies that count how often they are executed.
// Runs in: a copy of a replay, in the thread whose segment is counted.
// May call: core, patch/decode.
// Owns: the layout of areas, where copies stand, and of records, which say what was executed.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "../abi.h"

#define GR_BLOCK_INSNS 48
#define GR_BLOCK_ROOM 4096 // bytes that the copy of one block and its exits take at most
#define GR_AREA_CODE 0x800000
#define GR_FAST 0x10000

// An area stands within two gigabytes of the code that it has copies of, which reach their data relative to rip, as that code does.
struct gr_area {
	uint64_t rax, rcx, rdx; // the program's, while a copy needs the registers. INVARIANT(rax-first): glue.S
	uint64_t target;        // where the program goes on ...
	uint64_t reason;        // ... and what its exit wants
	uint64_t jump;
	uint64_t flags;
	uint64_t glue;          // gr_count_glue
	uint64_t left[GR_WATCHES]; // executions up to where a point stops
	uint64_t code_used, counts_used;
	uint64_t back;          // where a function of the engine returns to that was called from here
	uint64_t to_glue, halt, from_engine; // code
	uint64_t count[];
};

enum { // reasons: what the low bits mean is above
	GR_EXIT_FAR,         // nothing can be linked
	GR_EXIT_LINK = 1,    // offset of a jump's distance in the area
	GR_EXIT_INDIRECT,    // to be found again by the table
	GR_EXIT_PASS,        // which point: somebody wants to look at this pass
	GR_EXIT_TRACE,       // the block is to be logged
	GR_EXIT_STOP,        // which point, or GR_WATCHES: as many instructions as were wanted
	GR_EXIT_BITS = 8,
};

struct gr_insn_copy { uint8_t len; uint16_t at; } __attribute__((packed)); // of the program's instruction; where its copy begins

// What of the program was executed how often. One whose code was written in this generation can be run.
struct gr_block {
	uint64_t pc;
	uint64_t code;
	uint64_t *count;
	uint32_t next;       // 1 + the next one with this hash
	uint32_t generation; // 0: has no code
	uint32_t steps;      // index of its first struct gr_insn_copy
	uint16_t size;       // of its code
	uint16_t looked, logged; // here it goes on behind what its points want, and what the log does
	uint16_t counted;    // from here on its execution has been counted
	uint16_t bytes;      // of the program's code
	int8_t counts;       // in front of which of its instructions that happens; -1: apart
	uint8_t last;        // length of the last one
	uint8_t insns;
	bool falls;          // it ends where the next instruction begins
	bool saves;          // at its last instruction rax is in the area
};

// An entry of the table that returns and indirect jumps look in: by the low bits of an address.
struct gr_fast { uint64_t minus_pc, code; };

struct gr_wish { // what the copies shall watch for
	uint64_t pc[GR_WATCHES];   // 0: none
	bool looks[GR_WATCHES];    // each pass is looked at; else it is counted down
	bool traces;               // each block is logged
	uint64_t *instructions;    // to be counted down, too; NULL: no
};

struct gr_emit {
	struct gr_area *area;
	const struct gr_wish *wish;
	struct gr_fast *fast;
	uint64_t (*linked)(struct gr_area *area, uint64_t pc); // 0: there is no code for that yet
};

// Finds out how much of the program is the block at block->pc, of which `avail` bytes may be read: its instructions and bytes, and the
// length of each step. False: there is nothing that can be copied.
bool gr_block_look(const struct gr_emit *emit, struct gr_block *block, struct gr_insn_copy *steps, uint64_t avail);
// Writes its copy at the area's end, and where in it each step begins. False: not possible.
bool gr_block_emit(const struct gr_emit *emit, struct gr_block *block, struct gr_insn_copy *steps);

// What each area begins with.
void gr_area_begin(struct gr_area *area, struct gr_fast *fast);
