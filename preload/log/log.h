// What a thread did, written where it survives the process: chunks of the shared log.
// Runs in: application threads while recording.
// May call: core, codec; raw system calls when a chunk is full.
// Owns: the log mapping at GR_DATA_ADDR, the clock.
#pragma once

#include "../core/page.h"
#include "../core/thread.h"
#include "codec.h"

// CLOCK_MONOTONIC in microseconds.
uint64_t gr_time_now(void);

// INVARIANT(run-has-room): behind every event there is room for the one of a run (GR_RUN_ROOM).
#define GR_RUN_ROOM 24

// Room for an event of `need` bytes, data included; false when the log is closed.
bool gr_log_room(struct gr_thread *self, size_t need);

// The last of so many next stamps of the clock of all, behind `floor` and the thread's own; GR_CLOSED is set in it when the
// log is closed.
uint64_t gr_log_stamp(struct gr_thread *self, unsigned stamps, uint64_t floor);

// The events up to `self->pos` are whole.
void gr_log_commit(struct gr_thread *self);

// Room for so many bytes behind a header of its own, which says nothing yet but its length; NULL where the log is full or closed.
struct gr_chunk *gr_log_take(struct gr_thread *self, uint64_t bytes);

// This thread writes no more to its chunk.
void gr_log_let_go(const struct gr_thread *self);

// Stamps the event and commits it. Takes its place in the order at the call.
void gr_log(struct gr_thread *self, struct gr_event *ev);

// The same, with a stamp behind `floor`; and with the first stamp behind that and the thread's own, whatever the clock of all.
void gr_log_behind(struct gr_thread *self, struct gr_event *ev, uint64_t floor);
void gr_log_own(struct gr_thread *self, struct gr_event *ev, uint64_t floor);

// The same for an event whose data is gathered from several places, each behind its length in 4 bytes.
struct gr_piece { uint64_t addr; uint32_t len; uint32_t loose; }; // loose: not every byte was surely stored

// INVARIANT(bounded-events): an event holds at most GR_EVENT_DATA bytes of pieces. What is more follows at once in DATA
// events, whose object is the address it belongs to: that of the piece plus `shift`.
void gr_log_pieces(struct gr_thread *self, struct gr_event *ev, const struct gr_piece *pieces, unsigned count, uint64_t shift);

// What an event had no room for: this piece from `done` on, in DATA events.
void gr_log_more(struct gr_thread *self, const struct gr_piece *piece, uint32_t done, uint64_t shift);

// The same for pieces that stand in a row behind one length; together they fit one event.
void gr_log_joined(struct gr_thread *self, struct gr_event *ev, const struct gr_piece *pieces, unsigned count);

// Where every nanosecond counts: is there room for a call's start and its end, with so many bytes in at most two pieces?
static inline bool gr_log_ready(const struct gr_thread *self, uint32_t bytes)
{
	return self->end - self->pos > (ptrdiff_t)(GR_RUN_ROOM + 2 * GR_EVENT_MAX_HEAD + 2 * sizeof(uint32_t) + bytes) &&
	       !(__atomic_load_n(&gr_ctl->clock, __ATOMIC_RELAXED) & GR_CLOSED);
}

// Then: a call that only asks, its start and its end behind it.
#define GR_QUERY_DATA 64
void gr_log_query(struct gr_thread *self, uint16_t nr, uint8_t action, uint32_t check, int64_t result,
		  const struct gr_piece pieces[2], unsigned count);

// Then: the start of a recorded call; false, and nothing has happened, when the log was closed. And its end, with what it brought
// in, if it can bring anything in: there may be no room for that yet.
bool gr_log_begun(struct gr_thread *self, uint16_t nr, uint32_t check);
void gr_log_ended(struct gr_thread *self, uint16_t nr, int64_t result, const struct gr_piece *brought);

// Two events in a row that share one place in the order: a start that nobody else can see, and its end.
void gr_log_pair(struct gr_thread *self, struct gr_event *start, struct gr_event *end, const struct gr_piece *pieces,
		 unsigned count);
