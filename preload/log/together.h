// One core for all threads of a process, while the turn goes from one to the other all the time.
// Runs in: application threads, recording in turns and replaying.
// May call: core, raw system calls.
// Owns: on which cores the threads run.
//
// A thread that is woken on a core which has nothing to do is there 30 us later in a virtual machine, and 2 us later on the core
// that wakes it. Where one thread at a time runs there is nothing to lose by that; which core it is, is chosen anew when
// something else runs there, too.
//
// INVARIANT(cores-are-the-program's): never on another core than the program chose. While recording, each thread has its own cores
// again before anybody can look: the program, which may ask, or a process that it makes, which would inherit. Who
// chooses cores himself, or looks at his threads' status, keeps them from then on.
#pragma once

#include "../core/thread.h"

// This thread has the turn; `handed`: another one gave it.
void gr_together_run(struct gr_thread *self, bool handed);

// While recording: all threads have their cores again; and shall keep them.
void gr_together_apart(void);
void gr_together_never(void);

// Are any kept on one core? Then gr_together_run is to be called now and then also by who keeps the turn.
extern uint32_t gr_together_where;

// In a copy of the process, which has one task and makes the others behind this.
void gr_together_copied(void);
