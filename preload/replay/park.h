// A thread that waits inside the engine, in such a way that a woken copy can go on from there.
// Runs in: application threads while replaying.
// May call: core.
// Owns: the saved context and vector state of a parked thread.
#pragma once

#include "../core/thread.h"

// Call `remade` once, in a woken copy, in the thread that was made again.
void gr_park_init(void (*remade)(struct gr_thread *self));

// Saves the state (as gr_ctx_save does): 0 now, 1 in a copy, where all of it is restored.
#define GR_PARK_SAVE(self) (gr_park_before(self), gr_ctx_save(&(self)->ctx) ? (gr_park_after(self), 1) : 0)
void gr_park_before(struct gr_thread *self);
void gr_park_after(struct gr_thread *self);

// Waits until the turn is handed to this thread.
void gr_park(struct gr_thread *self);

// The main thread of a process has ended that belongs to a timeline, or is recorded under a debugger. INVARIANT(a-leader-stays): of a process whose first
// task is gone the kernel shows nobody memory, threads or descriptors; so that one waits until the process ends, on a stack
// of its own, and the engine takes it for ended. NULL where what its end does was done already.
_Noreturn void gr_park_leader(struct gr_thread *ended);

// Hands the turn to a parked thread.
void gr_unpark(struct gr_thread *other);

// Waits until a thread that is on its way here is parked.
void gr_park_await(struct gr_thread *other);
