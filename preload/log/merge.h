// Batches of events, and the total order: many per-thread streams merged by stamp into runs.
// Runs in: Python through cffi; never part of the engine.
// May call: libc.
// Owns: struct gr_merge and the rule that a smaller stamp comes first.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "../abi.h"
#include "codec.h"

// Encodes up to n events while `room` lasts; returns how many, and in *used the bytes written.
size_t gr_batch_encode(uint8_t *dst, size_t room, const struct gr_event *events, size_t n, uint64_t *last_stamp,
                       size_t *used);

// Decodes up to n events, stopping in front of one that is not whole and valid and behind the one that passes
// `enough` bytes; returns how many, and in *used the bytes read. A `ret` of NULL only looks.
size_t gr_batch_decode(const uint8_t *src, size_t avail, struct gr_event *ret, size_t n, size_t enough,
                       uint64_t *last_stamp, size_t *used);

struct gr_span {
	uint64_t bytes;  // whole and valid events from the start
	uint64_t events; // operations in them, which are more where there are runs
	uint64_t newest; // offset of the last event, with the operations and the stamp in front of it
	uint64_t newest_events;
	uint64_t newest_base;
	uint64_t first;  // stamps; 0 when there is no event
	uint64_t last;
};

// What stands in the first `avail` bytes behind the stamp `base`: events up to the one with operation number max_events.
void gr_span_scan(const uint8_t *src, size_t avail, size_t max_events, uint64_t base, struct gr_span *ret);

// The same up to the first event of a kind.
void gr_span_until(const uint8_t *src, size_t avail, unsigned kind, uint64_t base, struct gr_span *ret);

// Of a log that is written to, what can be taken out of it (gdbrr/ctl/drain.py).
#define GR_DRAIN_KNOWN 4096
#define GR_DRAIN_MOST 16
#define GR_DRAIN_BYTES (GR_DRAIN_MOST * GR_CHUNK_UNITS * GR_UNIT)
struct gr_drain {
	uint32_t seen;                 // units whose chunks are known
	uint32_t known;                // chunks that may be full soon
	uint32_t unit[GR_DRAIN_KNOWN]; // their first units
	uint32_t count;                // chunks taken out at once
	uint32_t taken[GR_DRAIN_MOST];
	uint32_t bytes;
	struct gr_chunk head[GR_DRAIN_MOST];
	uint8_t body[GR_DRAIN_BYTES];
};

// Copies some chunks that are full; returns how many. `size`: units that the log has at most.
uint32_t gr_drain_take(struct gr_drain *drain, const uint8_t *log, uint64_t units, uint64_t size);

// Behind that: they can be written to again. The first one that cannot is returned, and is taken out of the log's pages by the caller,
// who then asks again; 0: none is left (the very first chunk is a small one).
uint32_t gr_drain_give(struct gr_drain *drain, uint8_t *log, uint32_t *places);

enum gr_merge_state {
	GR_MERGE_DONE,  // every thread has ended
	GR_MERGE_NEED,  // gr_merge_needs() names the thread whose bytes are used up
	GR_MERGE_ROOM,  // no room for another run
	GR_MERGE_LIMIT, // max_ticks or max_bytes reached
	GR_MERGE_BAD,   // gr_merge_needs() names the thread whose next event is not valid
	GR_MERGE_GAP,   // the stamp that is due (gr_merge_follow) has no event yet
};

struct gr_merge; // opaque

struct gr_merge *gr_merge_new(uint32_t threads);
void gr_merge_free(struct gr_merge *merge);

// The next bytes of a thread, which stay where they are until the thread is needed again; len 0: it has no more.
void gr_merge_feed(struct gr_merge *merge, uint32_t thread, const uint8_t *src, size_t len, uint64_t base);

// Goes on merging: appends to runs[0..*count), joining a run of the same thread, and adds what was merged to *ticks
// and *bytes until either reaches its maximum.
enum gr_merge_state gr_merge_step(struct gr_merge *merge, struct gr_run *runs, size_t room, size_t *count,
                                  uint64_t *ticks, uint64_t max_ticks, uint64_t *bytes, uint64_t max_bytes);
uint32_t gr_merge_needs(const struct gr_merge *merge);

// The newest time that a merged event carried; 0 if none did.
uint64_t gr_merge_time(const struct gr_merge *merge);

// How many operations of each thread were merged so far.
void gr_merge_positions(const struct gr_merge *merge, uint64_t *ret);

// Marks of threads that wait (BLOCK) come right in front of what their thread does next, wherever that is known: of a recording
// whose threads ran at the same time, whose states nobody compares, and whose stamps are not its ticks (GR_LOG_CLOCK): with more
// of such a recording, the same operation would have another tick.
void gr_merge_late(struct gr_merge *merge);

// The stamp that is due next: from here on merging stops in front of one that is missing. 0: any will do.
void gr_merge_follow(struct gr_merge *merge, uint64_t next);

// The bytes of a thread that were fed and not merged, and the stamp in front of them.
uint64_t gr_merge_left(const struct gr_merge *merge, uint32_t thread, uint64_t *base);

// What the newest events of a thread say about how far a replay can go while more of them are still to come.
#define GR_BIRTHS 256

struct gr_birth { uint64_t stamp, thread; };

struct gr_tail {
	struct gr_event first; // of the bytes looked at last; without their data
	struct gr_event last;
	uint64_t solid;        // stamp of the newest event that is not missing in any replay
	uint64_t several;      // events that are more than one operation
	uint64_t births;
	struct gr_birth birth[GR_BIRTHS]; // calls that make threads, among the bytes looked at last, and the index each one took
};

// Looks at whole events behind the stamp `base`; returns how many bytes, fewer when there is no room for another birth.
uint64_t gr_tail_scan(const uint8_t *src, size_t avail, uint64_t base, struct gr_tail *tail);
