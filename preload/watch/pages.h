// Points of more bytes than a debug register holds: their pages are protected, and each access to them is stepped over.
// Runs in: threads of a leaf; the handlers of SIGSEGV and SIGTRAP.
// May call: core, ctl, replay.
// Owns: the protection of these pages.
#pragma once

#include "../core/thread.h"

// What point I covers is to be protected: from stores, or from reads as well. Stores only between two operations, where nobody but
// the program's code, and the engine's on its behalf, makes them.
void gr_pages_arm(uint32_t i, uint64_t from, uint64_t to, bool also_reads);

// Protects it; where reads count, system calls and the like open it until they are done.
void gr_pages_begin(void);
void gr_pages_disarm(void);

// Behind a trap: what the instruction stored is compared where reads do not count, and the pages are protected again. True if one was stepped over.
bool gr_pages_stepped(struct gr_thread *self, void *context);

// points.c: point I was changed, or touched, first at AT; CONTEXT is behind the instruction, NULL for an operation's doing.
void gr_points_touched(struct gr_thread *self, uint32_t i, uint64_t at, void *context);
