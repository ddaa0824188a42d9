// Does a program order its threads by instructions of its own, which no operation stands for?
// Runs in: controllers, on files, through the native module; no part of the engine.
// May call: the length decoder.
// Owns: nothing.
#pragma once

#include <stdint.h>

struct gr_atomics {
	uint32_t atomics; // instructions with `lock`, and `xchg` with memory
	uint32_t pauses;  // `pause`: a loop that waits for another thread
	uint32_t more;    // 1: the search ended early because it had found enough
	char loader[128]; // that the program names; empty if it names none
};

// Looks through the code of an ELF file. What is no such file has none.
void gr_atomics_find(const uint8_t *file, uint64_t size, struct gr_atomics *ret);
