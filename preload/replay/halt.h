// Standing still: in order `parallel`, while recording, all threads but one stand where their replay has them stand.
// Runs in: application threads while recording.
// May call: core, log.
// Owns: who wants the others to stand, and since when they may go on.
//
// A digest says what memory as a whole holds, so nobody else may run meanwhile. Whoever takes one asks the others, and waits for a
// moment: each of them stands in front of its next operation, or waits in the middle of one, for as long as it does. Nobody is
// interrupted for it; where somebody does not stand in time, there is no digest.
//
// INVARIANT(halt-is-a-place): what a thread did before it stood lies in front of the digest in the order, what it does behind the
// digest lies behind it. Its newest event has a stamp of the clock of all, as the digest has, and so has its next one.
//
// INVARIANT(stands-as-replayed): in front of an operation it says so in an event of its own (TURN), at which a replay waits with
// the same registers. Not in front of what a replay may leave out. In the middle of an operation it stands only in the kernel,
// behind an event which says that it waits, where a replay waits for the operation's next one; if a handler ran there, no more.
#pragma once

#include <stdbool.h>

#include "../core/thread.h"
#include "../log/turn.h"

// Called where gr_gate_steps() says so: stands there as long as it is wanted.
void gr_halt_step(struct gr_thread *self, enum gr_step step);

// Around what waits in the kernel, for others or for the world, and stores nothing that the program can see.
void gr_halt_stand(struct gr_thread *self);
void gr_halt_go(struct gr_thread *self);

// The newest event says that this thread waits in the middle of its operation: a wait of the library's behind it is such a place.
static inline void gr_halt_may(struct gr_thread *self)
{
	self->waits_behind = self->pub.ops;
}

static inline bool gr_halt_is_place(const struct gr_thread *self)
{
	return self->waits_behind && self->waits_behind == self->pub.ops;
}

// Behind an operation: true when all others stand; they do until gr_halt_end().
bool gr_halt_others(struct gr_thread *self);
void gr_halt_end(struct gr_thread *self);
