// Calls that change how memory is treated, not where it is: protection, advice, locks.
// Runs in: application threads, on the engine's stack.
// May call: core, log, replay.
// Owns: nothing.
#include <errno.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include "../../core/copy.h"
#include "../../core/ops.h"
#include "../../core/page.h"
#include "../../core/panic.h"
#include "../../core/raw.h"
#include "../../replay/gate.h"
#include "../dispatch.h"
#include "memory.h"
#include "outside.h"

enum { GUARD_INSTALL = 102, GUARD_REMOVE = 103, DONTNEED_LOCKED = 24 }; // of madvise; older headers lack them

// Advice that changes what memory holds, as what a replay can do about it: pages that may be dropped are dropped, because
// when the kernel would do that is nobody's to know.
static bool drops(uint64_t advice)
{
	return advice == MADV_DONTNEED || advice == MADV_FREE || advice == MADV_REMOVE || advice == DONTNEED_LOCKED;
}

static bool acts(uint64_t advice)
{
	return drops(advice) || advice == GUARD_INSTALL || advice == GUARD_REMOVE;
}

void gr_advice_follow(uint64_t addr, uint64_t len, uint64_t advice)
{
	if (drops(advice)) {
		GR_RAW(SYS_madvise, addr, len, MADV_DONTNEED);
		gr_memory_changed(addr, len);
	} else if (acts(advice)) {
		GR_RAW(SYS_madvise, addr, len, advice);
	}
}

// ---------------------------------------------------------------- what failed
// INVARIANT(failed-is-not-undone): a call over several mappings has done its work in front of the one at which it failed. How far
// it came is asked of the kernel by making it again, for less and less: where it worked, that changes nothing.
static uint64_t done_until(const struct gr_call *call)
{
	struct gr_call part = *call;
	uint64_t done = 0, failed = gr_whole_pages(call->arg[1]) / 4096 + 1; // in pages
	while (failed - done > 1) {
		part.arg[1] = (done + (failed - done) / 2) * 4096;
		if (gr_call_kernel(&part) == 0)
			done = part.arg[1] / 4096;
		else
			failed = part.arg[1] / 4096;
	}
	return done * 4096;
}

// ---------------------------------------------------------------- madvise
static void record_madvise(struct gr_call *call)
{
	const uint64_t *a = call->arg;
	struct gr_event ev = {.kind = GR_OP_SYS_END, .nr = call->nr + 1};
	struct gr_call real = *call;
	struct gr_stores stores = {0};
	const uint8_t *first = NULL;
	uint64_t len = gr_whole_pages(a[1]);
	if (a[2] == MADV_FREE)
		real.arg[2] = MADV_DONTNEED;
	call->result = gr_call_kernel(&real);
	if (a[2] == MADV_DONTFORK || a[2] == MADV_DOFORK)
		gr_view_dont_fork(a[0], a[1], a[2] == MADV_DONTFORK);
	bool failed = GR_IS_ERR(call->result), view = drops(a[2]) && gr_view_any(a[0], len);
	if (acts(a[2]) && (failed || view)) {
		first = gr_stores_open(call, len, &stores);
		if (failed && call->result != -ENOMEM) // which says that there are holes, and stops at none
			len = done_until(&real);
		if (failed && len)
			gr_store_add(&stores, GR_STORE_ADVICE, a[0], len, a[2], NULL);
		if (view)
			gr_view_contents(a[0], len, &stores); // a file's pages come back with the file's contents
	}
	gr_stores_log(call, &ev, first, &stores);
}

// Advice about forks would be followed by checkpoints; all else makes no difference.
static void replay_madvise(struct gr_call *call)
{
	struct gr_event ev;
	bool failed = gr_gate_peek(call->self, &ev) && GR_IS_ERR(ev.result);
	if (!failed)
		gr_advice_follow(call->arg[0], call->arg[1], call->arg[2]);
	gr_call_end(call, &ev);
	gr_call_stores(call, &ev);
}

// The same for several ranges, of the process itself: nobody else's memory may be dropped. The result is how many bytes it was.
static void record_process_madvise(struct gr_call *call)
{
	struct gr_event ev = {.kind = GR_OP_SYS_END, .nr = call->nr + 1};
	struct gr_call real = *call;
	struct gr_stores stores = {0};
	struct iovec iov;
	const uint8_t *first = NULL;
	if (call->arg[3] == MADV_FREE)
		real.arg[3] = MADV_DONTNEED;
	call->result = gr_call_kernel(&real);
	uint64_t left = !GR_IS_ERR(call->result) && acts(call->arg[3]) ? call->result : 0;
	if (left)
		first = gr_stores_open(call, left, &stores);
	for (uint64_t i = 0; left && gr_peek(&iov, call->arg[1] + i * sizeof iov, sizeof iov) == sizeof iov; i++) {
		uint64_t at = (uint64_t)iov.iov_base, n = iov.iov_len < left ? iov.iov_len : left;
		gr_store_add(&stores, GR_STORE_ADVICE, at, gr_whole_pages(n), call->arg[3], NULL);
		if (drops(call->arg[3]) && gr_view_any(at, n))
			gr_view_contents(at, gr_whole_pages(n), &stores);
		left -= n;
	}
	gr_stores_log(call, &ev, first, &stores);
}

// ---------------------------------------------------------------- mprotect
static void record_mprotect(struct gr_call *call)
{
	const uint64_t *a = call->arg;
	struct gr_event ev = {.kind = GR_OP_SYS_END, .nr = call->nr + 1};
	struct gr_stores stores = {0};
	const uint8_t *first = NULL;
	uint64_t len = gr_whole_pages(a[1]);
	call->result = gr_call_kernel(call);
	first = gr_stores_open(call, 0, &stores);
	if (GR_IS_ERR(call->result)) {
		len = done_until(call);
		if (len)
			gr_store_add(&stores, GR_STORE_PROTECT, a[0], len, a[2], NULL);
	}
	// What was mapped to be read is written to from here on.
	if (len && gr_view_protect(a[0], len, a[2])) {
		gr_view_link(a[0], len, &stores);
		gr_outside_own_range(a[0], len);
	}
	gr_stores_log(call, &ev, first, &stores);
}

static void replay_mprotect(struct gr_call *call)
{
	struct gr_event ev;
	long real = 0;
	bool failed = gr_gate_peek(call->self, &ev) && GR_IS_ERR(ev.result); // perhaps by what only the file knew
	struct gr_call again = *call;
	again.arg[2] = gr_protection(call->arg[2]);
	if (!failed)
		real = gr_call_kernel(&again);
	gr_call_end(call, &ev);
	if (real)
		gr_gate_desync(call->self, &ev, GR_OP_SYS_END, call->nr + 1, 0, "memory that cannot be protected as recorded");
	gr_call_stores(call, &ev);
}

// ---------------------------------------------------------------- map.c's way here
bool gr_advice_is(long nr)
{
	switch (nr) {
	case SYS_madvise:
	case SYS_process_madvise:
	case SYS_mprotect:
	case SYS_pkey_mprotect:
	// What follows changes nothing that a replay could see, and may be refused there.
	case SYS_msync:
	case SYS_mlock:
	case SYS_mlock2:
	case SYS_munlock:
	case SYS_mlockall:
	case SYS_munlockall:
	case SYS_mbind:
	case SYS_set_mempolicy:
	case 450: // set_mempolicy_home_node
	case SYS_migrate_pages:
		return true;
	}
	return false;
}

void gr_advice_record(struct gr_call *call)
{
	struct gr_event ev = {.kind = GR_OP_SYS_END, .nr = call->nr + 1};
	switch (call->nr) {
	case SYS_madvise:
		record_madvise(call);
		return;
	case SYS_process_madvise:
		record_process_madvise(call);
		return;
	case SYS_mprotect:
	case SYS_pkey_mprotect:
		record_mprotect(call);
		return;
	case SYS_mlockall:
	case SYS_munlockall:
		call->result = ev.result = gr_lock_all(call);
		gr_log(call->self, &ev);
		return;
	}
	call->result = ev.result = gr_call_kernel(call);
	gr_log(call->self, &ev);
}

void gr_advice_replay(struct gr_call *call)
{
	struct gr_event ev;
	switch (call->nr) {
	case SYS_madvise:
		replay_madvise(call);
		return;
	case SYS_mprotect:
	case SYS_pkey_mprotect:
		replay_mprotect(call);
		return;
	}
	gr_call_end(call, &ev);
	gr_call_stores(call, &ev);
}
