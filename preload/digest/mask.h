// What a digest leaves out: bytes that may differ between a recording and its replays, each with its reason.
// Runs in: application threads.
// May call: core.
// Owns: the known primitives.
#pragma once

#include "../core/ops.h"
#include "../core/thread.h"
#include "areas.h"

// A primitive that an operation was about: from now on its bytes are known for what they are. Without digests, those are
// that a replay leaves otherwise than the recording did; a signal in the middle of a computation needs to know
// (signal/loop/state.c).
void gr_mask_primitive(struct gr_thread *self, enum gr_op op, uint64_t object);

// Below a stack pointer at a system call; a function that returns leaves nothing there.
#define GR_RED_ZONE 128

// Begins a digest: collects what is dead or named by kernel ids in this process now. The stack of `self` is in use from
// `lowest` on, those of all others from the red zone of where they were shown to be.
void gr_mask_begin(struct gr_thread *self, uint64_t lowest);

// The main thread ends, and the rest of its process does not: its stack is dead below this, and its descriptor is, as
// those on stacks are (heap/stack.h).
void gr_mask_main_left(const struct gr_thread *self, uint64_t lowest);

// The first address of an area that is looked at at all: the main stack grows by itself and begins where it lives.
uint64_t gr_mask_start(const struct gr_area *area);

// Whether something of the page is left out because of where threads stand now, so that it may count at another time though
// nobody has written to it. Pages come with rising addresses.
bool gr_mask_spans(uint64_t addr);

// Clears in `page`, a copy of the page at `addr`, what is left out. Pages come with rising addresses.
void gr_mask_apply(uint64_t addr, uint8_t page[GR_PAGE]);

// The same for primitives alone. False if there is none on that page; `page` may be NULL.
bool gr_mask_only_primitives(uint64_t addr, uint8_t page[GR_PAGE]);
