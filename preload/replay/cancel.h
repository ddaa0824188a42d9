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
	GR_CANCEL_LOOP,   // between two operations, in the state that comes with the event
	GR_CANCEL_RESUMED, // where it was stopped for others (signal/preempt)
	GR_CANCEL_WITHIN,  // in the middle of a library function that waits
	GR_CANCEL_CHANGE,  // behind pthread_setcancelstate or pthread_setcanceltype
};

// In the constructor.
void gr_cancel_init(uint64_t fs_base);

// The thread is to be cancelled. While recording it is woken where it waits.
void gr_cancel_ask(struct gr_thread *t);

// Does it act here? `point`: in a cancellation point; else only threads with asynchronous cancellation act.
// An operation of its own if so.
bool gr_cancel_acts(struct gr_thread *self, enum gr_cancel_at at, bool point);

// Recording: a thread that may be cancelled anywhere is asked to, and is looked at if it comes to no operation; or it acts (`acts`).
extern void (*gr_cancel_on_open)(struct gr_thread *self, bool acts);

// Was it asked to, and may at this place of the program's? Not in the library, which sets the asynchronous type around its
// cancellation points.
bool gr_cancel_is_due(const struct gr_thread *self, uint64_t pc);

// Does the library have the thread inside a cancellation point, or is it asynchronously cancelable, and not disabled?
bool gr_cancel_open(const struct gr_thread *self);

// The two words of the library's, of 8 bytes each, that it sets while the thread waits in a cancellation point: which nobody does on
// replay. 0: not known.
void gr_cancel_words(const struct gr_thread *t, uint64_t ret[2]);

// Where the library links its descriptor with those of others, 16 bytes; 0: not known.
uint64_t gr_cancel_links(const struct gr_thread *t);

// Is it in a wait of the library's that is a cancellation point, or may be cancelled anywhere?
bool gr_cancel_in_point(const struct gr_thread *self);

// Where an operation is left in its middle.
struct gr_leave { struct gr_ctx ctx; struct gr_leave *outer; uint64_t stack, rsp; uint32_t point; };

// In the middle of an operation that waits: does not return if the thread acts there.
void gr_cancel_within(struct gr_thread *self);

// Then: leaves the engine into pthread_exit.
void gr_cancel_turn(struct gr_regs *frame);

// The same from anywhere, with nothing spilt of what stands there below the stack pointer. *rsp and *rip are the thread's.
void gr_cancel_turn_between(uint64_t *rsp, uint64_t *rip);
