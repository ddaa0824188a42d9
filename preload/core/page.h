// The shared control page, which slot of it is ours, and what this process is doing.
// Runs in: everywhere in the engine.
// May call: nothing.
// Owns: gr_mode, gr_closed, gr_tsc_recorded, gr_tsc_trapped, gr_slot.
#pragma once

#include <stdbool.h>

#include "../abi.h"

static struct gr_ctl *const gr_ctl = (struct gr_ctl *)GR_CTL_ADDR;
static const struct gr_image *const gr_image = (const struct gr_image *)GR_DATA_ADDR;

// GR_MODE_OFF in children that the program forked: they share the pages, so they must not touch them.
extern enum gr_mode gr_mode;

// The log is full and the program goes on without it. INVARIANT(mode-is-for-good): the mode stays, because every operation
// under way ends as it began, only that nothing is logged; each thread leaves the engine where it would begin its next one.
extern bool gr_closed;

// `rdtsc` is an operation (the class tsc); it faults in some thread, be it only by the program's own wish. Then the engine
// must not execute it.
extern bool gr_tsc_recorded, gr_tsc_trapped;

// Our row in the control page; row 0 but in copies of a replay.
extern struct gr_slot *gr_slot;

// Engine code outside the engine's library: stubs near the program's text.
struct gr_range { uint64_t start, end; };
extern struct gr_range gr_outpost;

// By order of knobs.def.
enum gr_knob {
#define KNOB(name, ...) GR_KNOB_##name,
#include "../tables/knobs.def"
#undef KNOB
	GR_KNOB_COUNT
};
