// The program's writable memory, as the kernel lists it.
// Runs in: the one thread that takes a digest.
// May call: core.
// Owns: the window at GR_WORK_ADDR.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../core/thread.h"

// A stretch of writable memory; `name` is not terminated.
struct gr_area {
	uint64_t start, end;
	bool file;  // pages that are absent may still have contents
	bool stack; // the main thread's
	bool shared; // with whoever maps the same
	bool memory; // then: of no file, and what is not there is empty
	const char *name;
	size_t name_len;
};

// Room for lists and digests, in the engine's own zone: nothing of it is allocated where the program could see it.
#define GR_WORK_LIST 0x1000000
#define GR_WORK_SIZE (GR_WORK_LIST + GR_EVENT_DATA)

// Reads the list of mappings. It stays valid until the next call.
void gr_areas_read(struct gr_thread *self);

// Walks it: `*at` is NULL in front of the first. The engine's own memory is left out.
bool gr_areas_next(const char **at, struct gr_area *ret);

// Which pages from `start` on have contents: one bit each, `count` (at most 64) of them. An absent page of anonymous
// memory is zero.
uint64_t gr_areas_present(const struct gr_area *area, uint64_t start, unsigned count);

// Which of them are certainly as they were when the process was last copied. INVARIANT(shared-is-unwritten): who writes to a page
// that two processes share gets one of his own. A page of zeros, which the kernel shows to everybody, says nothing.
uint64_t gr_areas_unwritten(const struct gr_area *area, uint64_t start, unsigned count);

// The first page from `start` on that may have contents, or the area's end: a heap is gigabytes of addresses.
uint64_t gr_areas_skip(const struct gr_area *area, uint64_t start);

// Closes what gr_areas_read has opened. INVARIANT(no-descriptor-stays): between the two the program does not run.
void gr_areas_done(void);
