// The encoding of one event, for the engine, the packer and every reader: it exists only here.
// Runs in: application threads (encode, decode on replay), Python through cffi.
// May call: nothing; no libc, no allocation, no global state.
// Owns: the bytes of an event (docs/demo-format.md draws them).
#pragma once

#include <stddef.h>
#include <stdint.h>

// One operation as it stands in a stream. Fields that are 0 take no space.
struct gr_event {
	uint64_t stamp;  // place in the order of the recording; strictly increasing within a thread
	uint64_t time;   // microseconds since the start of the recording; 0 where nobody looked
	uint64_t object; // what it is about: an address, a thread index, a descriptor
	int64_t result;  // what the program was told
	uint32_t check;  // hash of what the operation read (arguments, buffers)
	uint32_t len;    // bytes at data
	uint16_t nr;     // system call number plus 1, or signal number
	uint8_t kind;    // enum gr_op
	uint8_t flags;
	const uint8_t *data;
};

#define GR_RUN_LIMIT 0xffff  // most operations in one run
#define GR_EVENT_MAX_HEAD 56 // an event takes at most this many bytes plus its data

// A run counts for as many operations as it holds, every other event for one. Of a run `object` is their number, `check` 16
// bits of hash, and the stamp may be that of the event before.
uint64_t gr_event_ops(const struct gr_event *ev);

// INVARIANT(missing-changes-nothing): operations that may be missing carry no state but the order of what the program
// does with atomics of its own, which is not recorded. A thread that finds such a word as the recorded one found it
// later (or earlier) calls less (or more) often; both are followed. What remains is checked strictly.
_Bool gr_event_may_miss(const struct gr_event *ev);

// Writes `ev` to `dst`, which has room for GR_EVENT_MAX_HEAD + ev->len bytes; returns the bytes written. `*last_stamp` is the stamp
// of the event before (the base stamp in front of the first) and is moved on. With data NULL the last `len` bytes are left
// for the caller to fill.
size_t gr_event_encode(uint8_t *dst, const struct gr_event *ev, uint64_t *last_stamp);

// Reads one event; returns the bytes it took, or 0 when `avail` bytes do not hold a whole and valid one.
// `ret->data` points into `src`.
size_t gr_event_decode(const uint8_t *src, size_t avail, struct gr_event *ret, uint64_t *last_stamp);
