// The program's calls into libraries that the loader would look up at the first call: looked up before there is a second thread.
// Runs in: the constructor; a thread that makes another one, on the engine's stack.
// May call: the loader's own resolver and _dl_catch_exception.
// Owns: nothing.
#pragma once

#include <stdint.h>

#include "../core/thread.h"

// In the constructor. `resolver` is what the loader's entry for a first call calls: 0 where it was not found.
void gr_bind_init(uint64_t resolver);

// INVARIANT(bound-before-threads): two threads that come to a first call at once both look it up, and what that leaves below their
// stack pointers and in the loader's counters is in no order of operations: in a replay the second one finds it done. So
// nobody comes to a first call. What cannot be found yet stays as it is; so do libraries that are loaded later.
void gr_bind_all(struct gr_thread *self);
