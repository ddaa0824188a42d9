// The fence around a replay: what the kernel refuses to a program that a demo names.
// Runs in: gdbrr-launch, in the process that is about to become the program.
// May call: libc.
// Owns: the filter; nothing of it can be taken back later, not by the program nor by the engine.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// The parts, in the order in which they are put up.
enum gr_fence_part { GR_FENCE_NONE, GR_FENCE_PRIVILEGES, GR_FENCE_LANDLOCK, GR_FENCE_FILTER };

// Puts up the fence around this process and all that come of it. COPIES: a timeline copies this process. TASKS: threads
// that may come of it.
// GR_FENCE_NONE when it stands; otherwise the part that the kernel refused, and errno.
enum gr_fence_part gr_fence_raise(bool copies, uint32_t tasks);

// The words for a part that was refused.
const char *gr_fence_name(enum gr_fence_part part);
