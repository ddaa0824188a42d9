// Calls that only ask: they do not wait and change nothing that another thread could see. And transfers.
// Runs in: application threads while recording, on the engine's stack.
// May call: core, log.
// Owns: which calls these are, and the short way they take.
#pragma once

#include "../dispatch.h"

bool gr_is_query(const struct gr_call *call);
void gr_query_record(struct gr_call *call);

// In the constructor of a recording: the short way is open from here on.
void gr_query_init(void);

// From entry.S, where gr_quick[nr] is not 0. `done` 0: the door goes on with the call, whose number `result` is again; nothing has
// happened, or the thread says what (its field `begun`).
struct gr_quick_end { long result; uint64_t done; };
// What entry.S has kept of the program's registers, as it lies on the stack. `tail` as in gr_door_stub.
struct gr_quick_saved { uint64_t self, r10, r9, r8, rdx, rsi, rdi, flags, rsp; const uint64_t *tail; };
struct gr_quick_end gr_query_quick(uint64_t a, uint64_t b, uint64_t c, unsigned row, struct gr_thread *self,
				   const struct gr_quick_saved *saved);

// transfer.c: calls that bring in or send out some bytes, or wait for that to be possible.
bool gr_is_transfer(long nr);
struct gr_quick_end gr_transfer_quick(const struct gr_quick_saved *saved, unsigned nr, struct gr_thread *self);
