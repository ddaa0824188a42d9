// What the program asked for each signal, and what the kernel was told instead.
// Runs in: application threads, on the engine's stack; the engine's handlers.
// May call: core.
// Owns: the table of actions.
#pragma once

#include "../core/raw.h"
#include "signal.h"

// As the kernel has it.
struct gr_sigact { uint64_t handler, flags, restorer, mask; };

#define GR_SIGNALS 65
#define GR_SA_RESTORER 0x04000000

// Every signal that the program handles: they are all kept out while one is held.
extern uint64_t gr_sigact_handled;

void gr_sigact_init(void);

// The kernel gets the program's own actions, for good. `alone`: no other thread needs the door any more.
void gr_sigact_give_back(bool alone);
struct gr_sigact gr_sigact_get(int sig);

// All of them, by number, for a debugger that looks while the program stands.
const struct gr_sigact *gr_sigact_all(void);

// Without the lock, for handlers: is there one, or is the signal ignored?
bool gr_sigact_is_default(int sig);

// Takes the action for one delivery, with the lock held: with SA_RESETHAND it is gone afterwards.
struct gr_sigact gr_sigact_take(int sig);

static inline bool gr_sigact_runs(const struct gr_sigact *act)
{
	return act->handler > 1; // SIG_DFL, SIG_IGN
}

// Nothing happens when this one is delivered.
bool gr_sigact_ignores(const struct gr_sigact *act, int sig);

// The kernel's default action takes its course for a signal that is on its way to this thread.
void gr_sigact_default(int sig, const struct gr_siginfo *info);

// Makes a signal pending for this thread again.
void gr_signal_requeue(int sig, const struct gr_siginfo *info);

// signal.c: what the kernel calls.
void gr_signal_arrive(int sig, siginfo_t *info, void *context);
