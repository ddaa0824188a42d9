// Cancellation of threads. The library never hears of it: the engine keeps it, and at an operation of the thread it makes
// that thread leave by pthread_exit(PTHREAD_CANCELED), on the program's own stack.
// Runs in: application threads; the handler of the kick in whatever it interrupted.
// May call: core, log, replay.
// Owns: signal 32 of the process being recorded; where the library keeps a thread's cancellation state.
#pragma once

#include <stdbool.h>

#include "../core/thread.h"

// Where an operation asks whether its thread is to act. Wire values: the event's flags.
enum gr_cancel_at {
	GR_CANCEL_BEFORE, // nothing was done yet
	GR_CANCEL_BEHIND, // what was waited for was given up
	GR_CANCEL_TEST,   // pthread_testcancel
	GR_CANCEL_GIVES,  // there, too: no cancellation, but the place where it gave way to others
};

// In the constructor.
void gr_cancel_init(uint64_t fs_base);

// The thread is to be cancelled. While recording it is woken where it waits.
void gr_cancel_ask(struct gr_thread *t);

// Does it act here? `point`: in a cancellation point; else only threads with asynchronous cancellation act.
// An operation of its own if so.
bool gr_cancel_acts(struct gr_thread *self, enum gr_cancel_at at, bool point);

// Does the library have the thread inside a cancellation point, or is it asynchronously cancelable, and not disabled?
bool gr_cancel_open(const struct gr_thread *self);

// Then: leaves the engine into pthread_exit.
void gr_cancel_turn(struct gr_regs *frame);
