// Counting what the program executes, without a trap for each execution.
// Runs in: a copy of a replay that no debugger looks at, in the thread whose segment is counted.
// May call: core, ctl, patch/decode, replay.
// Owns: the areas and records of blocks.h; which of the program's code may be executed meanwhile.
//
// From the first instruction of a segment on the thread runs copies of the program's blocks, which count their executions. The
// program's own code cannot be executed meanwhile: wherever the processor comes back to it, from the engine or by a way
// that no copy knows, a fault brings it to a copy. INVARIANT(all-or-none): what is not counted makes all counts void.
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "../core/thread.h"

void gr_count_init(void);

// GR_CMD_RUN: whether this run is counted; from the segment's beginning, or on from where a counted one was stopped.
void gr_count_arm(void);
bool gr_count_wanted(void);

// The context of a thread that was stopped in the middle of a counted segment: it goes on in a copy.
void gr_count_enter(void *context);

// The process stands, in the middle of a segment (TRAPPED) or not: the program's code is as it was.
void gr_count_stand(bool trapped);

// A SIGTRAP while copies run. GR_COUNT_OTHER: it has nothing to do with them. GR_COUNT_HIT: the context shows the program where it
// is, until gr_count_on; GR_COUNT_STOP: the same, and it is to stop there. GR_COUNT_DONE: nothing more is to be done.
enum gr_count_trap { GR_COUNT_OTHER, GR_COUNT_HIT, GR_COUNT_STOP, GR_COUNT_DONE };
enum gr_count_trap gr_count_trapped(struct gr_thread *self, siginfo_t *info, void *context);
bool gr_count_on(void *context); // true: it is to stop there all the same

// How often the program has executed an instruction in this segment, or any that begins in these LEN bytes.
uint64_t gr_count_of(uint64_t pc, uint64_t len);
void gr_count_tell(void);

// What is to be done at a pass of the program's by a point, whose registers are in the order of a signal's context: true, it stops.
extern bool (*gr_count_passed)(struct gr_thread *self, uint32_t point, const long long *regs);
