// How long an x86-64 instruction is, and as much of its meaning as moving it elsewhere takes.
// Runs in: application threads; host-side tests.
// May call: nothing.
// Owns: nothing.
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum gr_insn_kind {
	GR_INSN_PLAIN,    // registers and constants only: means the same anywhere
	GR_INSN_MEMORY,   // uses memory, not relative to rip, or may fault for another reason
	GR_INSN_RIP,      // has an operand relative to rip
	GR_INSN_JCC,      // conditional jump; `cc` is the condition
	GR_INSN_JMP,
	GR_INSN_CALL,
	GR_INSN_LOOP,     // loop, jrcxz: only 8 bits of distance
	GR_INSN_INDIRECT, // jumps to an address from a register or from memory
	GR_INSN_RET,
	GR_INSN_SYSCALL,
	GR_INSN_INT3,     // and its kin
};

struct gr_insn {
	uint8_t length;
	uint8_t kind; // enum gr_insn_kind
	uint8_t cc;
	uint8_t disp; // RIP, and jumps by such an operand: where in it the distance to that operand stands
	int32_t rel;  // JCC, JMP, CALL, LOOP: distance from the next instruction
};

#define LANDING {0xf3, 0x0f, 0x1e, 0xfa} // endbr64, at the beginning of functions

// Reads the instruction at `code`, of which `avail` bytes may be looked at. False: not a valid one.
bool gr_decode(const uint8_t *code, uint64_t avail, struct gr_insn *ret);
