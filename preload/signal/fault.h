// Faults that are not where the program computes: inside of an operation, and of a handler's frame.
// Runs in: the engine's handlers; application threads, on the engine's stack.
// May call: core, log, replay.
// Owns: nothing.
#pragma once

#include "frame.h"

// The flags of a FAULT's event. Wire values; 0: an instruction of the program's.
enum gr_fault_where { GR_FAULT_INSIDE = 1, GR_FAULT_FRAME };

// In the handler: is it one? Then the thread is turned to what is to be done about it.
bool gr_inside_is(const struct gr_thread *self, int sig, const siginfo_t *info, const struct gr_context *at);
void gr_inside_turn(struct gr_thread *self, int sig, const siginfo_t *info, struct gr_context *at);

// Replaying: if the next event is one, the handler runs now.
void gr_inside_again(struct gr_thread *self);

// The frame of the handler for `failed` could not be written, with its context at `frame`. The masks are those of gr_frame_enter.
_Noreturn void gr_fault_of_frame(struct gr_thread *self, const struct gr_context *at, int failed, uint64_t frame, uint64_t back,
				 uint64_t during);

// The default action of a fault, which nobody prevents.
void gr_fault_die(struct gr_thread *self, int sig, const struct gr_siginfo *info);
