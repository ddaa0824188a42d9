// Digests: registers and writable memory behind an operation, written into the demo and compared on replay.
// Runs in: application threads, leaving an operation; the thread of a replay that stands.
// May call: core, log, replay.
// Owns: operations of the kind DIGEST.
#pragma once

#include "../core/ops.h"
#include "../core/page.h"
#include "../core/thread.h"

// INVARIANT(off-costs-nothing): a run without digests sees one test of the control page at each operation, and a look at a
// table at those of primitives.
static inline bool gr_digest_on(void)
{
	return gr_ctl->knob[GR_KNOB_digest] != 0;
}

// In order `parallel` while several threads live, too.
static inline bool gr_digest_beside(void)
{
	return gr_digest_on() && !gr_ctl->knob[GR_KNOB_order];
}

// Leaving an operation with the program's registers in `frame`: takes a digest when one is due (recording) or next
// (replay). Behind a system `call` the vector registers and the red zone belong to the program, behind a library function to
// nobody.
void gr_digest_leave(struct gr_thread *self, struct gr_regs *frame, bool call);

// In order `parallel`, behind an operation that a replay may leave out: there is no digest, because it may not come by.
void gr_digest_pass(struct gr_thread *self);

// What an operation was about; see mask.h.
void gr_digest_primitive(struct gr_thread *self, enum gr_op op, uint64_t object);

// GR_CMD_DIGEST: leaves a digest of a standing process in the control page.
void gr_digest_command(struct gr_thread *self);

// GR_CMD_PAGES: leaves the pages that are asked for there.
void gr_digest_pages(struct gr_thread *self);

// Behind gr_mask_begin, with rising addresses: the hash of a page; 0 for one of zeros, never for another one.
uint32_t gr_digest_page(uint64_t addr, bool file);

// Whether that is its hash but for kernel ids of threads.
bool gr_digest_page_may_be(uint64_t addr, uint32_t hash);

// A hash of the registers of all threads of a standing process.
uint64_t gr_digest_registers(const struct gr_thread *self, uint32_t *ret_threads);
