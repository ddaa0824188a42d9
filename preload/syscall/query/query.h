// Calls that only ask: they do not wait and change nothing that another thread could see. And small transfers.
// Runs in: application threads while recording, on the engine's stack.
// May call: core, log.
// Owns: which calls these are, and the short way they take.
#pragma once

#include "../dispatch.h"

bool gr_is_query(const struct gr_call *call);
void gr_query_record(struct gr_call *call);

// In the constructor of a recording: the short way is open from here on.
void gr_query_init(void);

// From entry.S, where gr_quick[nr] is not 0. `done` 0: nothing has happened, and `result` is the call's number again.
struct gr_quick_end { long result; uint64_t done; };
struct gr_quick_end gr_query_quick(uint64_t a, uint64_t b, uint64_t c, unsigned row, struct gr_thread *self);

// transfer.c: `read` and `write` of a few bytes, of a thread that is alone.
struct gr_quick_end gr_transfer_quick(uint64_t fd, uint64_t buffer, uint64_t length, unsigned nr, struct gr_thread *self);
