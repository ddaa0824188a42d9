// Mappings: recorded with their contents, and on replay made at their recorded addresses.
// Runs in: application threads, on the engine's stack.
// May call: core, log, replay.
// Owns: the windows at GR_WINDOW_ADDR.
#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "../../core/copy.h"
#include "../../core/nolibc.h"
#include "../../core/ops.h"
#include "../../core/page.h"
#include "../../core/panic.h"
#include "../../core/raw.h"
#include "../../replay/gate.h"
#include "../dispatch.h"
#include "../descriptor.h"
#include "memory.h"
#include "outside.h"

static uint64_t window_of(const struct gr_call *call)
{
	return GR_WINDOW_ADDR + (uint64_t)call->self->block * GR_WINDOW_SIZE;
}

static bool is_anonymous(const struct gr_call *call)
{
	return call->arg[3] & MAP_ANONYMOUS;
}

static bool is_shared(const struct gr_call *call)
{
	return (call->arg[3] & MAP_TYPE) != MAP_PRIVATE;
}

// Recording: a file whose descriptor a replay does not have, or may not have.
static bool is_recorded(const struct gr_call *call)
{
	int number = call->arg[4];
	uint8_t fd = gr_fd_get(number);
	return !is_anonymous(call) && (fd & GR_FD_RECORDED || (fd & GR_FD_CLASS) == GR_FD_NONE || gr_fd_rule(number) == GR_ACT_RECORD);
}

// The stores of a call that has no other outputs, in its room; then its end.
static void log_stores(struct gr_call *call, struct gr_event *ev, const uint8_t *first, const struct gr_stores *stores)
{
	const struct gr_piece piece = {(uint64_t)first, stores->at - first, false};
	if (stores->full)
		gr_panic(call->self, GR_PANIC_REFUSED, "a mapping of a file of %u bytes that changes as a whole", call->arg[1], 0);
	ev->result = call->result;
	ev->object = piece.len;
	gr_log_pieces(call->self, ev, &piece, piece.len ? 1 : 0, 0);
}

static const uint8_t *open_stores(struct gr_call *call, uint64_t size, struct gr_stores *stores)
{
	size += size / 4096 * sizeof(struct gr_store) + 0x10000;
	uint8_t *base = (uint8_t *)gr_room(call->self, size);
	*stores = (struct gr_stores){base, base + size, !base};
	return base;
}

static void mapped(uint64_t from, uint64_t len)
{
	if (gr_copy_mapped)
		gr_copy_mapped(from, (len + 4095) & ~4095ULL);
}

// The end of the heap moves: pages behind it are gone, and new when it comes back.
long gr_break(struct gr_call *call)
{
	long before = GR_RAW(SYS_brk, 0), ret = gr_call_kernel(call);
	uint64_t from = ((uint64_t)(ret < before ? ret : before) + 4095) & ~4095ULL;
	uint64_t to = ((uint64_t)(ret < before ? before : ret) + 4095) & ~4095ULL;
	if (from < to)
		mapped(from, to - from);
	return ret;
}

// ---------------------------------------------------------------- mmap
// The bytes of the file behind a fresh mapping: not all of it, pages beyond the end of the file are no memory.
static uint64_t file_bytes(const struct gr_call *call)
{
	struct stat st;
	uint64_t offset = call->arg[5], len = call->arg[1];
	if (GR_RAW(SYS_fstat, call->arg[4], &st) || (uint64_t)st.st_size <= offset)
		return 0;
	uint64_t n = st.st_size - offset;
	return n < len ? n : len;
}

// What tells that a file is still the one that was mapped; 0 for what is no regular file.
static uint32_t identity(const struct gr_call *call)
{
	struct stat st;
	if (is_anonymous(call) || GR_RAW(SYS_fstat, call->arg[4], &st) || !S_ISREG(st.st_mode))
		return 0;
	uint64_t hash = gr_hash_word(gr_hash_word(GR_HASH_SEED, st.st_size), st.st_mtim.tv_sec);
	return (uint32_t)gr_hash_word(hash, st.st_mtim.tv_nsec) | 1;
}

static void log_contents(struct gr_call *call, struct gr_event *ev)
{
	uint64_t n = file_bytes(call), window = window_of(call);
	if (n >= GR_WINDOW_SIZE)
		gr_panic(call->self, GR_PANIC_REFUSED, "a mapped file of %u bytes\nrecord it with the class `file` native", n, 0);
	if (!n || GR_RAW(SYS_mmap, window, n, PROT_READ, MAP_PRIVATE | MAP_FIXED, call->arg[4], call->arg[5]) != (long)window) {
		gr_log(call->self, ev);
		return;
	}
	const struct gr_piece piece = {window, (uint32_t)n, false};
	gr_log_pieces(call->self, ev, &piece, 1, call->result - window);
	GR_RAW(SYS_munmap, window, n);
}

static _Noreturn void refuse_alias(const struct gr_call *call)
{
	gr_panic(call->self, GR_PANIC_REFUSED,
		 "a file that is mapped twice to be shared, so that a store to one mapping shows in the other"
		 "\nswitch double mapping off in the program, e.g. DOTNET_EnableWriteXorExecute=0", 0, 0);
}

// INVARIANT(zone-is-ours): a program that names an address as a wish only, as V8 does at random, is not given one where
// the engine, a heap or a stack will be: the kernel chooses, and the replay follows the result.
static long map_elsewhere(const struct gr_call *call)
{
	uint64_t from = call->arg[0], to = from + call->arg[1];
	bool ours = from < GR_STACKS_END && to > GR_ZONE && from < to && !(call->arg[3] & MAP_FIXED);
	if (ours && call->arg[3] & MAP_FIXED_NOREPLACE)
		return -EEXIST;
	struct gr_call real = *call;
	if (ours)
		real.arg[0] = 0;
	return gr_call_kernel(&real);
}

static void record_mmap(struct gr_call *call)
{
	const uint64_t *a = call->arg;
	struct gr_event ev = {.kind = GR_OP_SYS_END, .nr = call->nr + 1};
	uint32_t key = is_anonymous(call) ? 0 : gr_fd_key((int)a[4]);
	if (!key && !is_anonymous(call) && gr_fd_get(a[4]) == GR_FD_NONE) { // one that was inherited
		gr_fd_probe(a[4]);
		key = gr_fd_key((int)a[4]);
	}
	bool write = a[2] & PROT_WRITE;
	if (gr_view_alias(key, is_shared(call), write))
		refuse_alias(call);
	if (a[3] & MAP_FIXED)
		gr_outside_leaves(a[0], (a[1] + 4095) & ~4095ULL);
	call->result = ev.result = map_elsewhere(call);
	if (GR_IS_ERR(call->result)) {
		gr_log(call->self, &ev);
		return;
	}
	if (key || is_shared(call))
		gr_view_add(call->result, (a[1] + 4095) & ~4095ULL, key, a[5], is_shared(call), write);
	else
		gr_view_forget(call->result, (a[1] + 4095) & ~4095ULL);
	if (is_shared(call) && !is_anonymous(call))
		gr_outside_mapped(call, key, write);
	if (call->action == GR_ACT_RECORD) {
		log_contents(call, &ev);
		return;
	}
	ev.check = identity(call);
	gr_log(call->self, &ev);
}

// Shared mappings become private ones: the processes that shared them are not there, the copies of the replay are.
static long map_again(struct gr_call *call, const struct gr_event *ev)
{
	const uint64_t *a = call->arg;
	uint64_t flags = a[3] & ~(uint64_t)MAP_TYPE;
	flags |= MAP_PRIVATE | MAP_NORESERVE | (a[3] & (MAP_FIXED | MAP_FIXED_NOREPLACE) ? 0 : MAP_FIXED_NOREPLACE);
	if (call->action != GR_ACT_RECORD && ev->check && ev->check != identity(call))
		gr_gate_desync(call->self, ev, GR_OP_SYS_END, call->nr + 1, 0, "a mapped file that was changed");
	if (call->action != GR_ACT_RECORD)
		return GR_RAW(SYS_mmap, ev->result, a[1], a[2], flags, a[4], a[5]);
	long ret = GR_RAW(SYS_mmap, ev->result, a[1], PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
	if (ret != ev->result)
		return ret;
	if (ev->len > 4 && ev->len - 4 <= a[1])
		memcpy((void *)ret, ev->data + 4, ev->len - 4);
	gr_call_more(call, ret, a[1]);
	GR_RAW(SYS_mprotect, ret, a[1], a[2]);
	return ret;
}

// ---------------------------------------------------------------- mremap
static void record_mremap(struct gr_call *call)
{
	const uint64_t *a = call->arg;
	struct gr_event ev = {.kind = GR_OP_SYS_END, .nr = call->nr + 1};
	struct gr_stores stores = {0};
	const uint8_t *first = NULL;
	uint64_t old_len = (a[1] + 4095) & ~4095ULL, new_len = (a[2] + 4095) & ~4095ULL;
	bool view = gr_view_any(a[0], old_len ? old_len : 1);
	if (!old_len && view)
		gr_panic(call->self, GR_PANIC_REFUSED, "a mapping that is made a second time by mremap with length 0", 0, 0);
	call->result = gr_call_kernel(call);
	if (view && !GR_IS_ERR(call->result)) {
		gr_view_moved(a[0], old_len, call->result, new_len);
		gr_outside_moved(a[0], old_len, call->result);
		if (new_len > old_len) {
			first = open_stores(call, new_len - old_len, &stores);
			gr_view_contents(call->result + old_len, new_len - old_len, &stores);
		}
	}
	log_stores(call, &ev, first, &stores);
}

// What a mapping leaves is free from the start of the call on, what it takes is taken at its end: in between it stands in
// the window.
static void replay_mremap(struct gr_call *call)
{
	struct gr_event ev;
	const uint64_t *a = call->arg;
	uint64_t from = a[0], old_len = a[1], window = window_of(call);
	bool peeked = gr_gate_peek(call->self, &ev) && !GR_IS_ERR(ev.result) && ev.result != (long)a[0];
	if (peeked && !(a[3] & MREMAP_DONTUNMAP) && old_len && a[2] <= GR_WINDOW_SIZE &&
	    GR_RAW(SYS_mremap, a[0], old_len, a[2], MREMAP_MAYMOVE | MREMAP_FIXED, window) == (long)window) {
		mapped(a[0], a[1]); // a watched place is empty from here on, not from the end of the call on
		from = window;
		old_len = a[2];
	}
	gr_call_end(call, &ev);
	if (GR_IS_ERR(ev.result))
		return;
	uint64_t flags = ev.result == (long)from ? 0 : (a[3] & MREMAP_DONTUNMAP) | MREMAP_MAYMOVE | MREMAP_FIXED;
	if (GR_RAW(SYS_mremap, from, old_len, a[2], flags, ev.result) != ev.result)
		gr_gate_desync(call->self, &ev, GR_OP_SYS_END, call->nr + 1, 0, "a mapping that is not free here");
	if (from == a[0])
		mapped(a[0], a[1]);
	mapped(ev.result, a[2]);
	gr_call_stores(call, &ev);
}

// ---------------------------------------------------------------- madvise
// Advice that changes what memory holds, as what a replay can do about it: pages that may be dropped are dropped, because
// when the kernel would do that is nobody's to know.
static bool drops(uint64_t advice)
{
	return advice == MADV_DONTNEED || advice == MADV_FREE || advice == MADV_REMOVE || advice == 24; // MADV_DONTNEED_LOCKED
}

static void record_madvise(struct gr_call *call)
{
	const uint64_t *a = call->arg;
	struct gr_event ev = {.kind = GR_OP_SYS_END, .nr = call->nr + 1};
	struct gr_call real = *call;
	struct gr_stores stores = {0};
	const uint8_t *first = NULL;
	if (a[2] == MADV_FREE)
		real.arg[2] = MADV_DONTNEED;
	call->result = gr_call_kernel(&real);
	if (a[2] == MADV_DONTFORK || a[2] == MADV_DOFORK)
		gr_view_dont_fork(a[0], a[1], a[2] == MADV_DONTFORK);
	if (drops(a[2]) && !GR_IS_ERR(call->result) && gr_view_any(a[0], a[1])) {
		first = open_stores(call, a[1], &stores);
		gr_view_contents(a[0], a[1], &stores); // a file's pages come back with the file's contents
	}
	log_stores(call, &ev, first, &stores);
}

// What is there now and what is used from now on: the addresses that the engine has set aside would all become memory.
static void record_mlockall(struct gr_call *call)
{
	struct gr_event ev = {.kind = GR_OP_SYS_END, .nr = call->nr + 1};
	struct gr_call real = *call;
	real.arg[0] |= MCL_ONFAULT;
	call->result = ev.result = gr_call_kernel(&real);
	gr_log(call->self, &ev);
}

// Advice about forks would be followed by checkpoints; all else makes no difference.
static void replay_madvise(struct gr_call *call)
{
	struct gr_event ev;
	const uint64_t *a = call->arg;
	bool failed = gr_gate_peek(call->self, &ev) && GR_IS_ERR(ev.result);
	if (!failed && drops(a[2])) {
		GR_RAW(SYS_madvise, a[0], a[1], MADV_DONTNEED);
		mapped(a[0], a[1]);
	} else if (!failed && (a[2] == 102 || a[2] == 103)) // MADV_GUARD_INSTALL, MADV_GUARD_REMOVE
		GR_RAW(SYS_madvise, a[0], a[1], a[2]);
	gr_call_end(call, &ev);
	gr_call_stores(call, &ev);
}

// ---------------------------------------------------------------- the door's way here
static void record(struct gr_call *call)
{
	struct gr_event ev = {.kind = GR_OP_SYS_END, .nr = call->nr + 1};
	switch (call->nr) {
	case SYS_mmap:
		record_mmap(call);
		return;
	case SYS_mremap:
		record_mremap(call);
		return;
	case SYS_madvise:
		record_madvise(call);
		return;
	case SYS_mlockall:
		record_mlockall(call);
		return;
	case SYS_munmap:
		gr_outside_leaves(call->arg[0], (call->arg[1] + 4095) & ~4095ULL);
		gr_view_forget(call->arg[0], (call->arg[1] + 4095) & ~4095ULL); // before somebody else can have the place
	}
	call->result = ev.result = gr_call_kernel(call);
	gr_log(call->self, &ev);
}

static void replay(struct gr_call *call)
{
	struct gr_event ev;
	long real = 0;
	switch (call->nr) {
	case SYS_mremap:
		replay_mremap(call);
		return;
	case SYS_madvise:
		replay_madvise(call);
		return;
	case SYS_munmap:
		real = gr_call_kernel(call);
		mapped(call->arg[0], call->arg[1]);
	}
	gr_call_end(call, &ev);
	if (call->nr == SYS_mmap && !GR_IS_ERR(ev.result)) {
		real = map_again(call, &ev);
		mapped(ev.result, call->arg[1]);
	}
	if ((call->nr == SYS_munmap || (call->nr == SYS_mmap && !GR_IS_ERR(ev.result))) && real != ev.result)
		gr_gate_desync(call->self, &ev, GR_OP_SYS_END, call->nr + 1, 0, "a mapping that is not free here");
}

// What was mapped to be read is written to from here on.
static void protect(const struct gr_call *call)
{
	bool alias = false;
	if (gr_mode != GR_MODE_RECORD || !(call->arg[2] & PROT_WRITE) || !gr_view_protect(call->arg[0], call->arg[1], &alias))
		return;
	if (alias)
		refuse_alias(call);
	gr_outside_own_range(call->arg[0], call->arg[1]);
}

bool gr_memory(struct gr_call *call)
{
	switch (call->nr) {
	case SYS_mprotect:
	case SYS_pkey_mprotect:
		protect(call);
		return false;
	case SYS_mmap:
	case SYS_mremap:
	case SYS_munmap:
	case SYS_madvise:
	// What follows changes nothing that a replay could see, and may be refused there.
	case SYS_msync:
	case SYS_mlock:
	case SYS_mlock2:
	case SYS_munlock:
	case SYS_mlockall:
	case SYS_munlockall:
	case SYS_mbind:
	case SYS_set_mempolicy:
	case SYS_migrate_pages:
		break;
	default:
		return false;
	}
	call->action = call->nr == SYS_mmap && gr_mode == GR_MODE_RECORD && is_recorded(call) ? GR_ACT_RECORD : GR_ACT_NATIVE;
	gr_call_start(call);
	if (gr_mode == GR_MODE_RECORD)
		record(call);
	else
		replay(call);
	return true;
}
