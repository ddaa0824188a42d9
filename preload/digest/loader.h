// What the loader leaves behind that no two runs have in common: readings of the processor's clock, used stack, its cache of libraries.
// Runs in: the constructor, and the first operation.
// May call: core, patch.
// Owns: the end of the loader's resolver.
#pragma once

#include <stdint.h>

// Clears the loader's clock readings and what it knows of its cache, and makes its resolver clear its own readings of registers. `loader` is where it lies (AT_BASE).
void gr_loader_forget(uint64_t loader);

// Clears the stack below `sp`, where the loader's and the constructor's own frames were. Not from a thread that stands there.
void gr_loader_clear_stack(uint64_t sp);

// What it counts without a lock: nothing, where that was not found.
struct gr_counters { uint64_t start, end; };
struct gr_counters gr_loader_counters(void);
