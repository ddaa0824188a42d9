// The turn: with every order but `parallel`, one thread of the program at a time runs while recording.
// Runs in: application threads while recording.
// May call: core.
// Owns: whose turn it is, who wants it, and who waits for something that another thread gives.
//
// INVARIANT(turn-at-operations): the turn changes hands in front of an event and nowhere else, so what a thread does
// between two of its events stands between them in the total order, where a replay puts it. A thread that comes to no operation
// is stopped where it is, which becomes one (signal/preempt). The exception is one that waited for a lock inside the C
// library: it goes on without an event and keeps the turn at its next operation, because on replay it goes on right in front
// of that. Handlers of signals begin at operations, with the turn of those.
//
// INVARIANT(arrival-is-known): a thread that hands the turn over in front of an operation says so in an event of its own. It may
// never have the turn again; without that event nobody would know that what it did up to there is done.
//
// INVARIANT(choice-is-the-seed's): who comes next depends on the seed and on what the threads did, not on when the kernel
// woke whom: whoever has the turn says who else can go on, and that one may be chosen before it is awake. When a signal
// comes is the kernel's choice.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "../core/thread.h"

// The number of a choice in knobs.def.
enum gr_order { GR_ORDER_PARALLEL, GR_ORDER_SERIAL, GR_ORDER_RANDOM, GR_ORDER_PCT }; // `auto` is one of them by now

// False as long as the order is `parallel`, and in replays and children.
extern bool gr_turn_on;

// Something is done in front of operations: that, or in order `parallel` somebody wants all others to stand (replay/halt.h).
extern bool gr_turn_steps;

// In the constructor: the main thread has the turn.
void gr_turn_init(struct gr_thread *self);

// In front of the events of an operation: the place where the turn is handed over.
enum gr_step {
	GR_STEP_LOCK,  // an operation that takes less than a microsecond
	GR_STEP_GIVES, // one that gives a lock back: as long as it is held, others may have to wait for it
	GR_STEP_CALL,  // a system call
	GR_STEP_YIELD, // the thread wants others to run
	GR_STEP_STOP,  // the same, and where it stands is in the log already
};
void gr_turn_step(struct gr_thread *self, enum gr_step step);

// Recording in turns: it asked in vain for what others hold, and will perhaps do nothing but that.
void gr_turn_in_vain(struct gr_thread *self);

// What others ask of a thread that has had the turn for a while without an operation.
enum gr_ask {
	GR_ASK_NOTHING,
	GR_ASK_PROOF, // to give way if it spins
	GR_ASK_PLACE, // to give way in any case
};
enum gr_ask gr_turn_asked(const struct gr_thread *self);

// Around a system call. One that waits gives the turn back before, one that does not is only overtaken when it takes long.
void gr_turn_call(struct gr_thread *self, bool waits);
void gr_turn_back(struct gr_thread *self);

// Whether the program's memory has a meaning as a whole: by the one who has the turn, behind an operation. INVARIANT(all-stand):
// everybody else stands in front of an operation, waits in the middle of one that stores nothing before it is logged, was stopped in
// a state that a replay finds again, or is born and has not begun. There a replay has him stand, too.
bool gr_turn_all_stand(const struct gr_thread *self);

// Births, by the maker and by the new thread; a death, with the word that the kernel clears then.
void gr_turn_born(struct gr_thread *child);
void gr_turn_begin(struct gr_thread *self);
void gr_turn_leave(struct gr_thread *self);

// The log is closed: everybody goes on by themselves.
void gr_turn_close(void);

// ---------------------------------------------------------------- waiting for another thread
// What ended a wait.
enum gr_woken {
	GR_WOKEN,        // the object was given
	GR_WOKEN_LATE,   // the time was up
	GR_WOKEN_ENDED,  // a signal is held, or a cancellation is to be acted upon
	GR_WOKEN_CLOSED, // there are no turns any more: the kernel has to wait
};

enum gr_wait {
	GR_WAIT_RETRY = 1, // looks again by itself, so a thread's end wakes it too
	GR_WAIT_TOLD = 2,  // goes on when told, and for nothing else
	GR_WAIT_SIGNALS = 4, // a signal that is held ends it
	GR_WAIT_CANCELS = 8, // a cancellation ends it
};

struct gr_limit { const struct timespec *until; int clock; }; // no limit: NULL

// Waits until the object is given, without the turn, and comes back with it. The bits of `mask` say what it listens to.
enum gr_woken gr_turn_wait(struct gr_thread *self, uint64_t object, unsigned kind, struct gr_limit limit, uint32_t mask);

// Lets up to `count` threads go on that wait for the object, the longest waiting first; returns how many.
uint32_t gr_turn_wake(struct gr_thread *self, uint64_t object, uint32_t count, uint32_t mask);

// Has up to `count` of them wait for `to` in its place, the longest waiting first; returns how many.
uint32_t gr_turn_move(struct gr_thread *self, uint64_t object, uint32_t count, uint64_t to);

// Lets `t` go on if it waits where a cancellation ends that.
void gr_turn_break(struct gr_thread *self, struct gr_thread *t);
