// The time stamp counter: `rdtsc` and `rdtscp` as operations, where the profile records the class tsc.
// Runs in: the handler of SIGSEGV, on the engine's alternate stack; the constructor; threads at their birth.
// May call: core, log, replay.
// Owns: the kernel's setting of PR_SET_TSC for each thread; the program's own is kept in its struct gr_thread.
#pragma once

#include "../frame.h"

// A fault at an instruction that reads the counter: true when it has been executed. False when the fault is the program's.
bool gr_tsc_fault(struct gr_thread *self, struct gr_context *at);

// A thread in itself: at its birth, and where it is made again in a copy; and where it leaves the engine.
void gr_tsc_born(const struct gr_thread *self);
void gr_tsc_give_back(const struct gr_thread *self);

// The program's prctl(PR_SET_TSC) and prctl(PR_GET_TSC).
long gr_tsc_set(struct gr_thread *self, uint64_t value);
long gr_tsc_get(const struct gr_thread *self, uint64_t addr);
