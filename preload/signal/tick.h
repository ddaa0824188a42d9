// A timer for each thread that holds a signal: it ends a wait, and it sees to a thread that comes to no operation.
// Runs in: application threads while recording.
// May call: core.
// Owns: the kernel's timers of the engine. Their signal is SIGTRAP, which is never blocked.
#pragma once

#include "frame.h"

#define GR_TICK_PATIENCE 20000000 // ns without an operation before a signal is delivered elsewhere
#define GR_TICK_LOOK 1000000      // ns between two looks at a thread without operations
#define GR_TICK_KICK 50000        // ns until a call is looked at that was issued with a signal held
#define GR_TICK_KICK_AGAIN 500000

// In `first` ns and then every `again`; 0 stops it. False if there is no timer to be had.
bool gr_tick_arm(struct gr_thread *self, uint64_t first, uint64_t again);
bool gr_tick_is(const struct gr_thread *self, const siginfo_t *info);
void gr_tick_delete(struct gr_thread *self);
