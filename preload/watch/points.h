// Points: addresses whose writes, reads or executions are counted by the processor while a worker runs.
// Runs in: threads of a leaf that is nobody's debuggee yet.
// May call: core, ctl, replay.
// Owns: SIGTRAP of a replay, the perf events, the hits of our slot.
#pragma once

#include <signal.h>

#include "../core/thread.h"

void gr_points_init(void);

// What happens to a SIGTRAP that is the program's own, or a breakpoint's of somebody else in the engine, which marks its
// data so; set by the layers above.
#define GR_POINTS_FOREIGN 0x200
extern void (*gr_points_foreign)(int sig, siginfo_t *info, void *context);

// GR_CMD_RUN: opens the slot's points for every thread; closes those of the run before.
void gr_points_arm(void);

// A thread that was born while points are armed.
void gr_points_born(struct gr_thread *self);
