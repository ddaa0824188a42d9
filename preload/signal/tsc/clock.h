// The time stamp counter where it must not be read: computed from the kernel's raw clock, which runs on it.
// Runs in: the handler of SIGSEGV, on the engine's alternate stack.
// May call: core.
// Owns: nothing.
#pragma once

#include <stdint.h>

// In a thread in which reading it faults.
uint64_t gr_tsc_clock(void);

// What rdtscp says besides: the processor and its node.
uint32_t gr_tsc_processor(void);
