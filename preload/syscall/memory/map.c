// Mappings: recorded with their contents, and on replay made at their recorded addresses.
// Runs in: application threads, on the engine's stack.
// May call: core, log, replay.
// Owns: the windows at GR_WINDOW_ADDR.
#include <errno.h>
#include <fcntl.h>
#include <linux/mman.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../core/copy.h"
#include "../../core/nolibc.h"
#include "../../core/ops.h"
#include "../../core/page.h"
#include "../../core/panic.h"
#include "../../core/raw.h"
#include "../../replay/gate.h"
#include "../dispatch.h"
#include "../descriptor.h"
#include "../fd/refer.h"
#include "memory.h"
#include "outside.h"

#define LARGE 0x100000

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
	return call->arg[3] & MAP_SHARED; // MAP_SHARED_VALIDATE has this bit, too
}

// Recording: a file whose descriptor a replay does not have, or may not have.
static bool is_recorded(const struct gr_call *call)
{
	int number = call->arg[4];
	uint8_t fd = gr_fd_get(number);
	return !is_anonymous(call) && (fd & GR_FD_RECORDED || (fd & GR_FD_CLASS) == GR_FD_NONE || gr_fd_rule(number) == GR_ACT_RECORD);
}

void gr_stores_log(struct gr_call *call, struct gr_event *ev, const uint8_t *first, const struct gr_stores *stores)
{
	const struct gr_piece piece = {(uint64_t)first, stores->at - first, false};
	if (stores->full)
		gr_panic(call->self, GR_PANIC_REFUSED, "a mapping of a file of %u bytes that changes as a whole", call->arg[1], 0);
	ev->result = call->result;
	ev->object = piece.len;
	gr_log_pieces(call->self, ev, &piece, piece.len ? 1 : 0, 0);
}

const uint8_t *gr_stores_open(struct gr_call *call, uint64_t size, struct gr_stores *stores)
{
	size += size / 4096 * sizeof(struct gr_store) + 0x10000;
	uint8_t *base = (uint8_t *)gr_room(call->self, size);
	*stores = (struct gr_stores){base, base + size, !base};
	return base;
}

void gr_memory_changed(uint64_t from, uint64_t len)
{
	if (gr_copy_mapped)
		gr_copy_mapped(from, gr_whole_pages(len));
}

// The end of the heap moves: pages behind it are gone, and new when it comes back. Where a limit was in the way it did not.
long gr_break(struct gr_call *call)
{
	struct gr_event ev;
	bool moved = gr_gate_peek(call->self, &ev) && ev.result == (long)call->arg[0];
	long before = GR_RAW(SYS_brk, 0), ret = moved ? gr_call_kernel(call) : before;
	uint64_t from = ((uint64_t)(ret < before ? ret : before) + 4095) & ~4095ULL;
	uint64_t to = ((uint64_t)(ret < before ? before : ret) + 4095) & ~4095ULL;
	if (from < to)
		gr_memory_changed(from, to - from);
	return ret;
}

// ---------------------------------------------------------------- mmap
// The bytes of the file behind a fresh mapping, and how much of the mapping is memory: pages behind the end of the file are none,
// what its last page has beyond its end is.
static uint64_t file_bytes(const struct gr_call *call, uint64_t *there)
{
	struct stat st;
	uint64_t offset = call->arg[5], len = gr_whole_pages(call->arg[1]);
	*there = len;
	if (is_anonymous(call) || GR_RAW(SYS_fstat, call->arg[4], &st) || (!S_ISREG(st.st_mode) && (uint64_t)st.st_size <= offset))
		return 0;
	uint64_t n = (uint64_t)st.st_size > offset ? st.st_size - offset : 0;
	if (S_ISREG(st.st_mode) && gr_whole_pages(n) < len)
		*there = gr_whole_pages(n);
	return n < len ? n : len;
}

// A large file that is nearly all holes, as memory without a name often is: what it has are stores. False where it has much.
static bool log_islands(struct gr_call *call, uint64_t n, struct gr_stores *stores)
{
	char link[40];
	uint64_t offset = call->arg[5], total = 0, window = window_of(call);
	gr_format(link, sizeof link, "/proc/self/fd/%d", (long)(int)call->arg[4]);
	long fd = n > LARGE ? GR_RAW(SYS_openat, AT_FDCWD, link, O_RDONLY | O_CLOEXEC, 0) : -1; // with a place of its own
	if (GR_IS_ERR(fd))
		return false;
	long at = offset, end;
	bool few = true;
	for (; few && (at = GR_RAW(SYS_lseek, fd, at, SEEK_DATA)) >= 0 && (uint64_t)at < offset + n; at = end) {
		end = GR_RAW(SYS_lseek, fd, at, SEEK_HOLE);
		uint64_t from = (uint64_t)at & ~4095ULL, some = (uint64_t)end < offset + n ? (uint64_t)end - from : offset + n - from;
		total += some;
		few = end > at && total <= LARGE;
		if (!few || GR_RAW(SYS_mmap, window, some, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, from) != (long)window)
			few = false;
		else
			gr_store_add(stores, GR_STORE_BYTES, call->result + (from - offset), some, 0, (const void *)window);
		GR_RAW(SYS_munmap, window, some);
	}
	GR_RAW(SYS_close, fd);
	return few && !stores->full;
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

// What the last page has behind the end of the file is nearly always zeros: they are left out.
static uint64_t without_zeros(uint64_t window, uint64_t n)
{
	uint64_t end = gr_whole_pages(n);
	while (end > n && !((const char *)window)[end - 1])
		end--;
	return end;
}

// A mapping that can be read is looked at where it is, if it is small: taking a window away again makes all cores drop what they know of
// the process's pages, 10 us in a program with threads. A large one shall not become part of the program's memory by that.
#define SMALL 0x10000

static void log_contents(struct gr_call *call, struct gr_event *ev, uint64_t n, const struct gr_piece *stores)
{
	bool here = n <= SMALL && call->arg[2] & PROT_READ;
	uint64_t window = here ? (uint64_t)call->result : window_of(call);
	if (n >= GR_WINDOW_SIZE)
		gr_panic(call->self, GR_PANIC_REFUSED, "a mapped file of %u bytes\nrecord it with the class `file` native", n, 0);
	if (!here && n && GR_RAW(SYS_mmap, window, n, PROT_READ, MAP_PRIVATE | MAP_FIXED, call->arg[4], call->arg[5]) != (long)window)
		n = 0;
	uint64_t bytes = n ? without_zeros(window, n) : 0, first = GR_EVENT_DATA - stores->len;
	const struct gr_piece all = {window, (uint32_t)bytes, false};
	const struct gr_piece pieces[2] = {{window, (uint32_t)(bytes < first ? bytes : first), false}, *stores};
	gr_log_pieces(call->self, ev, pieces, stores->len ? 2 : bytes ? 1 : 0, 0);
	gr_log_more(call->self, &all, pieces[0].len, call->result - window);
	if (n && !here)
		GR_RAW(SYS_munmap, window, n);
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
	uint64_t there, len = gr_whole_pages(a[1]), bytes;
	if (is_shared(call) && is_anonymous(call))
		key = gr_view_nameless();
	if (a[3] & MAP_FIXED)
		gr_outside_leaves(a[0], len);
	call->result = ev.result = gr_lock_mapped(map_elsewhere(call), len);
	if (GR_IS_ERR(call->result)) {
		gr_log(call->self, &ev);
		return;
	}
	bytes = file_bytes(call, &there);
	if (key || is_shared(call))
		gr_view_add((struct gr_view){
			.addr = call->result, .len = len, .offset = a[5], .there = there, .key = key, .prot = a[2],
			.shared = is_shared(call), .writable = write,
		});
	else
		gr_view_forget(call->result, len);
	bool alone = !is_shared(call) || !write; // nobody else may see what is stored there
	int refer = call->action == GR_ACT_RECORD && alone ? gr_refer_mapped(call, bytes) : -1;
	if (is_shared(call) && !is_anonymous(call))
		gr_outside_mapped(call, key, write, refer >= 0);
	struct gr_stores stores;
	const uint8_t *first = gr_stores_open(call, bytes > LARGE ? 2 * LARGE : 0, &stores);
	if (refer >= 0) {
		gr_refer_store(&stores, call->result, bytes, (uint32_t)refer, a[5], 0);
		bytes = 0;
	} else if (call->action == GR_ACT_RECORD && log_islands(call, bytes, &stores))
		bytes = 0;
	else
		stores.at = (uint8_t *)first, stores.full = !first;
	if (call->action == GR_ACT_RECORD && there < len)
		gr_store_add(&stores, GR_STORE_VOID, call->result + there, len - there, a[2], NULL);
	if (is_shared(call))
		gr_view_link(call->result, len, &stores);
	const struct gr_piece piece = {(uint64_t)first, stores.at - first, false};
	if (stores.full)
		gr_panic(call->self, GR_PANIC_REFUSED, "a file that is mapped in very many pieces", 0, 0);
	ev.object = piece.len;
	if (call->action == GR_ACT_RECORD) {
		log_contents(call, &ev, bytes, &piece);
		return;
	}
	ev.check = identity(call);
	gr_log_pieces(call->self, &ev, &piece, piece.len ? 1 : 0, 0);
}

static _Noreturn void unfit(const struct gr_call *call, const struct gr_event *ev)
{
	gr_gate_desync(call->self, ev, GR_OP_SYS_END, call->nr + 1, 0, "outputs that do not fit the program's buffers");
}

// How much memory is locked, present or in large pages makes no difference, and a replay may not have as much.
#define HUGE_SIZE(flags) ((flags) >> MAP_HUGE_SHIFT & MAP_HUGE_MASK)
#define RESOURCES (MAP_LOCKED | MAP_POPULATE | MAP_NONBLOCK | MAP_HUGETLB | (uint64_t)MAP_HUGE_MASK << MAP_HUGE_SHIFT)

// Of large pages there are whole ones.
static uint64_t mapped_length(const struct gr_call *call)
{
	uint64_t size = 1ULL << (HUGE_SIZE(call->arg[3]) ? HUGE_SIZE(call->arg[3]) : 21); // 2 MiB where nobody says more
	bool large = call->arg[3] & MAP_HUGETLB && is_anonymous(call);
	return large ? (call->arg[1] + size - 1) & ~(size - 1) : gr_whole_pages(call->arg[1]);
}

// Shared mappings become private ones: the processes that shared them are not there, the copies of the replay are.
static long map_again(struct gr_call *call, const struct gr_event *ev)
{
	const uint64_t *a = call->arg;
	uint64_t flags = a[3] & ~(uint64_t)(MAP_TYPE | RESOURCES), len = mapped_length(call), stores = ev->object;
	int prot = gr_protection(a[2]);
	flags |= MAP_PRIVATE | MAP_NORESERVE | (a[3] & (MAP_FIXED | MAP_FIXED_NOREPLACE) ? 0 : MAP_FIXED_NOREPLACE);
	if (call->action != GR_ACT_RECORD && ev->check && ev->check != identity(call))
		gr_gate_desync(call->self, ev, GR_OP_SYS_END, call->nr + 1, 0, "a mapped file that was changed");
	if (call->action != GR_ACT_RECORD) {
		long real = GR_RAW(SYS_mmap, ev->result, len, prot, flags, a[4], a[5]);
		if (real == ev->result && (stores > ev->len || !gr_stores_apply(ev->data + ev->len - stores, stores, GR_STORE_ALL)))
			unfit(call, ev);
		return real;
	}
	long ret = GR_RAW(SYS_mmap, ev->result, len, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
	if (ret != ev->result)
		return ret;
	uint32_t n = 0;
	if (ev->len >= sizeof n)
		memcpy(&n, ev->data, sizeof n);
	if (stores > ev->len || n > ev->len - stores || n > len)
		unfit(call, ev);
	memcpy((void *)ret, ev->data + sizeof n, n);
	gr_call_more(call, ret, len);
	if (!gr_stores_apply(ev->data + ev->len - stores, stores, GR_STORE_CONTENTS)) // as long as it may be written to
		unfit(call, ev);
	GR_RAW(SYS_mprotect, ret, len, prot);
	if (!gr_stores_apply(ev->data + ev->len - stores, stores, GR_STORE_MAPPINGS))
		unfit(call, ev);
	return ret;
}

// ---------------------------------------------------------------- mremap
static bool is_whole(uint64_t addr, uint64_t len)
{
	return GR_RAW(SYS_msync, addr, len, MS_ASYNC) == 0;
}

static void record_mremap(struct gr_call *call)
{
	const uint64_t *a = call->arg;
	struct gr_event ev = {.kind = GR_OP_SYS_END, .nr = call->nr + 1};
	uint64_t old_len = gr_whole_pages(a[1]), new_len = gr_whole_pages(a[2]);
	bool view = gr_view_any(a[0], old_len ? old_len : 1);
	struct gr_stores stores = {0};
	bool over = a[3] & MREMAP_FIXED && is_whole(a[4], new_len);
	const uint8_t *first = view || over ? gr_stores_open(call, view ? new_len + old_len : 0, &stores) : NULL;
	call->result = gr_call_kernel(call);
	if (GR_IS_ERR(call->result) && over && !is_whole(a[4], new_len)) // kernels before 6.17 clear the place first, and look then
		gr_store_add(&stores, GR_STORE_UNMAP, a[4], new_len, 0, NULL);
	if (!old_len && !GR_IS_ERR(call->result)) {
		if (!gr_view_again(a[0], call->result, new_len, &stores))
			gr_panic(call->self, GR_PANIC_REFUSED, "memory that is mapped a second time, by mremap with length 0", 0, 0);
	} else if (view && !GR_IS_ERR(call->result)) {
		gr_view_moved(a[0], old_len, call->result, new_len, a[3] & MREMAP_DONTUNMAP, &stores);
		gr_outside_moved(a[0], old_len, call->result);
	}
	gr_stores_log(call, &ev, first, &stores);
}

// What was one mapping while recording may be two here: the second one stands for what lies behind the end of a file. They are
// moved one by one. What they have more at the new place is as the last of them: empty memory, or none.
struct move { uint64_t from, end, to, flags; bool failed; };

static void move_piece(const struct gr_map *map, void *arg)
{
	struct move *m = arg;
	uint64_t from = map->start > m->from ? map->start : m->from, end = map->end < m->end ? map->end : m->end;
	if (from >= end || m->failed)
		return;
	uint64_t to = m->to + (from - m->from);
	m->failed = GR_RAW(SYS_mremap, from, end - from, end - from, m->flags, to) != (long)to;
}

static bool move_pieces(uint64_t from, uint64_t old_len, uint64_t new_len, uint64_t flags, uint64_t to)
{
	uint64_t kept = old_len < new_len ? old_len : new_len, last = kept > 4096 ? kept - 4096 : 0;
	struct move m = {from, from + kept, to, flags, false};
	if (from != to && (!gr_maps_each(move_piece, &m) || m.failed))
		return false;
	if (old_len > new_len)
		return from == to ? GR_RAW(SYS_munmap, to + new_len, old_len - new_len) == 0
				  : flags & MREMAP_DONTUNMAP || GR_RAW(SYS_munmap, from + new_len, old_len - new_len) == 0;
	return old_len == new_len || GR_RAW(SYS_mremap, to + last, kept - last, new_len - last, 0) == (long)(to + last);
}

static bool move(uint64_t from, uint64_t old_len, uint64_t new_len, uint64_t flags, uint64_t to)
{
	long ret = GR_RAW(SYS_mremap, from, old_len, new_len, flags, to);
	return ret == (long)to || (ret == -EFAULT && move_pieces(from, gr_whole_pages(old_len), gr_whole_pages(new_len), flags, to));
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
	    move(a[0], old_len, a[2], MREMAP_MAYMOVE | MREMAP_FIXED, window)) {
		gr_memory_changed(a[0], a[1]); // a watched place is empty from here on, not from the end of the call on
		from = window;
		old_len = a[2];
	}
	gr_call_end(call, &ev);
	if (GR_IS_ERR(ev.result) || !a[1]) { // what is mapped a second time is a store
		gr_call_stores(call, &ev);
		return;
	}
	uint64_t flags = ev.result == (long)from ? 0 : (a[3] & MREMAP_DONTUNMAP) | MREMAP_MAYMOVE | MREMAP_FIXED;
	if (!move(from, old_len, a[2], flags, ev.result))
		gr_gate_desync(call->self, &ev, GR_OP_SYS_END, call->nr + 1, 0, "a mapping that is not free here");
	if (from == a[0])
		gr_memory_changed(a[0], a[1]);
	gr_memory_changed(ev.result, a[2]);
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
	case SYS_munmap:
		gr_outside_leaves(call->arg[0], gr_whole_pages(call->arg[1]));
		gr_view_forget(call->arg[0], gr_whole_pages(call->arg[1])); // before somebody else can have the place
		call->result = ev.result = gr_call_kernel(call);
		gr_log(call->self, &ev);
		return;
	default:
		gr_advice_record(call);
	}
}

static void replay(struct gr_call *call)
{
	struct gr_event ev;
	long real = 0;
	switch (call->nr) {
	case SYS_mmap:
		break;
	case SYS_munmap:
		if (gr_gate_peek(call->self, &ev) && GR_IS_ERR(ev.result)) { // perhaps because of what only that mapping was
			real = ev.result;
			break;
		}
		real = gr_call_kernel(call);
		gr_memory_changed(call->arg[0], call->arg[1]);
		break;
	case SYS_mremap:
		replay_mremap(call);
		return;
	default:
		gr_advice_replay(call);
		return;
	}
	gr_call_end(call, &ev);
	if (call->nr == SYS_mmap && !GR_IS_ERR(ev.result)) {
		real = map_again(call, &ev);
		gr_memory_changed(ev.result, mapped_length(call));
	}
	if ((call->nr == SYS_munmap || !GR_IS_ERR(ev.result)) && real != ev.result)
		gr_gate_desync(call->self, &ev, GR_OP_SYS_END, call->nr + 1, 0, "a mapping that is not free here");
}

bool gr_memory(struct gr_call *call)
{
	switch (call->nr) {
	case SYS_mmap:
	case SYS_mremap:
	case SYS_munmap:
		break;
	default:
		if (!gr_advice_is(call->nr))
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
