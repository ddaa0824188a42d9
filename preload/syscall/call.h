// One system call under way, and what its row in the table says about its memory.
// Runs in: application threads, on the engine's stack.
// May call: core, log.
// Owns: struct gr_call.
#pragma once

#include <stdbool.h>

#include "../core/thread.h"
#include "../log/log.h"
#include "effects.h"

#define GR_CALL_PIECES 4096 // output buffers of one call; vectors that have more are refused

struct gr_call {
	struct gr_thread *self;
	struct gr_regs *frame;
	const struct gr_sys *sys;
	long nr;
	uint64_t arg[6];
	long result;
	uint64_t object;            // goes with the start: the index of a thread that is being made
	bool aside;                 // no operation: a futex of the C library's own
	bool staged;                // recording: on buffers of the engine, which are all there
	bool soft;                  // replaying: an output whose contents differ, and nothing else
	int64_t told;               // of an output: bytes that the recorded call was asked to write
	int echo;                   // recording: a pipe with a copy of what it brings to the program's output; -1: none
	uint8_t action;             // enum gr_action; decided while recording, taken from the start on replay
	uint32_t before[GR_FX_MAX]; // lengths that the kernel may lower: as they were in front of the call
	struct gr_fx ioctl;         // effect of an ioctl request, in place of the table's
};

// Hash of what the kernel reads: plain arguments and in-buffers; addresses are left out.
uint32_t gr_call_check(struct gr_call *call);

// Replaying: whether this is the call that had that check. An id of a thread among its arguments may have several meanings.
bool gr_call_checks(struct gr_call *call, uint32_t check);

// Parts of that: bytes that are read, what a vector leads to, a path.
uint64_t gr_hash_memory(uint64_t hash, uint64_t addr, uint64_t len);
uint64_t gr_hash_vector(uint64_t hash, uint64_t vector, uint64_t count);
uint64_t gr_hash_path(uint64_t hash, uint64_t addr); // recording

// Remembers lengths that the call may lower.
void gr_call_before(struct gr_call *call);

// The effects of a call: those of an ioctl request, or the row of the table. Ends at the first of kind NONE, or at GR_FX_MAX.
static inline const struct gr_fx *gr_call_fx(const struct gr_call *call, int *count)
{
	*count = call->ioctl.kind ? 1 : GR_FX_MAX;
	return call->ioctl.kind ? &call->ioctl : call->sys->fx;
}

// Room for the output buffers of one call of this thread.
struct gr_piece *gr_call_room(struct gr_thread *self);

// Output buffers as they are once `call->result` is known; returns how many, or -1 when there are more than fit.
int gr_call_outputs(const struct gr_call *call, struct gr_piece pieces[GR_CALL_PIECES]);

// What the kernel stored by itself no debug register has seen: it is stored once more, at the same place in the order.
void gr_call_show_outputs(const struct gr_call *call);

// The most bytes that output effect `i` can have, known before the call; 0 where nobody can say.
uint64_t gr_call_capacity(const struct gr_call *call, int i);

// Hash of the outputs that are contents (as long as the result says), for calls that are made again on replay.
uint32_t gr_call_contents(const struct gr_call *call);

// Replay: puts recorded outputs into the program's buffers. False when they do not fit what the program offers.
bool gr_call_inject(const struct gr_call *call, const uint8_t *data, uint32_t len);
