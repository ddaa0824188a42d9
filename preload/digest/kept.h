// The state of a standing process as a few numbers, for which only pages that were written to since the last time are looked at.
// Runs in: the thread of a replay that stands; application threads, which say what they map.
// May call: core, ctl.
// Owns: the hash of each page as it was at the newest look; a copy inherits them with all other memory.
#pragma once

#include <stdint.h>

#include "../core/thread.h"

// GR_CMD_CHECK: leaves the state in our slot.
void gr_kept_check(struct gr_thread *self);

// In front of a copy. INVARIANT(hashed-then-copied): behind it a page that is still shared is as it was hashed; so a process that
// keeps hashes brings them up to date first.
void gr_kept_freeze(struct gr_thread *self);

// It goes on: what was hashed may change.
void gr_kept_run(void);

// What the page tables do not tell: these bytes were mapped, moved or dropped, or are left out of digests from now on.
void gr_kept_changed(uint64_t start, uint64_t end);
