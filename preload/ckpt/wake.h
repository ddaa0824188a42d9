// Waking: the single task of a copy becomes the program again, with all its threads.
// Runs in: a copy just made from a frozen one.
// May call: core, ctl, replay.
// Owns: the count of threads made again.
#pragma once

#include "../core/thread.h"

// In the constructor. While recording nobody is woken, but the loader counts who asks it for a symbol.
void gr_wake_init(void);

// Makes every thread again; the calling task becomes the main thread. Does not return.
_Noreturn void gr_wake(void);

// What each thread does first when it is there again (see gr_park_init).
void gr_wake_remade(struct gr_thread *self);

// The thread that stands: waits until all are there, then says so.
void gr_wake_complete(void);
