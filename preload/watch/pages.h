// Points of more bytes than a debug register holds: their pages are protected, and each store to them is stepped over.
// Runs in: threads of a leaf, in the program's code of one segment; the handlers of SIGSEGV and SIGTRAP.
// May call: core, ctl.
// Owns: the protection of these pages.
#pragma once

#include "../core/thread.h"

// Protects what point I covers, all of it private memory that may be written to: only between two operations, where nobody
// but the program's code, and the engine's on its behalf, stores to it.
void gr_pages_arm(uint32_t i, uint64_t from, uint64_t to);
void gr_pages_disarm(void);

// Behind a trap: what the instruction stored is compared, and the pages are protected again. True if one was stepped over.
bool gr_pages_stepped(struct gr_thread *self, void *context);

// points.c: the instruction changed point I, first at AT.
void gr_points_changed(struct gr_thread *self, uint32_t i, uint64_t at, void *context);
