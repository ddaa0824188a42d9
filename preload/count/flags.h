// What an instruction does with the arithmetic flags, as far as counting has to know it.
// Runs in: application threads; host-side tests.
// May call: nothing.
// Owns: nothing.
#pragma once

#include <stdint.h>

enum gr_flags {
	GR_FLAGS_KEPT,  // neither read nor written
	GR_FLAGS_SET,   // all six are written, whatever they were
	GR_FLAGS_MIXED, // anything else, or not known
};

enum gr_flags gr_flags_of(const uint8_t *code);
