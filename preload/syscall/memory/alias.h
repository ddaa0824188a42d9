// Memory of a replay that shows one part of a file at two places.
// Runs in: application threads of a replay; copies of the process that were just made.
// May call: core.
// Owns: nothing.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// From here on `dst` shows what `src` shows; both are mapped. False where the kernel refuses.
bool gr_alias_map(uint64_t src, uint64_t dst, uint64_t len, int prot);

// Around a copy of the process: in front of it; in the copy, whose original may have to wait for that; behind it, in the original.
void gr_alias_before(void);
void gr_alias_copied(bool parent_waits);
void gr_alias_await(void);
