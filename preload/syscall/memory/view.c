// Views of files: what is mapped where while recording, so that a write to a file is known to change memory.
// Runs in: application threads while recording, on the engine's stack.
// May call: core.
// Owns: the list of views.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "../../core/copy.h"
#include "../../core/nolibc.h"
#include "../../core/panic.h"
#include "../../core/raw.h"
#include "../../core/thread.h"
#include "../../patch/patch.h"
#include "../descriptor.h"
#include "../fd/input.h"
#include "memory.h"
#include "outside.h"

#define VIEWS 16384

static struct gr_view views[VIEWS];
static uint32_t count;
static uint32_t held; // for a few hundred instructions, none of which waits

static void append(struct gr_view view)
{
	if (!view.len)
		return;
	if (count == VIEWS)
		gr_panic(gr_self, GR_PANIC_REFUSED, "more than %u mappings of files at a time", VIEWS, 0);
	views[count++] = view;
}

static struct gr_view part(const struct gr_view *v, uint64_t from, uint64_t to)
{
	struct gr_view ret = *v;
	uint64_t at = from - v->addr;
	ret.addr = from;
	ret.len = to - from;
	ret.offset += at;
	ret.there = v->there > at ? v->there - at : 0;
	if (ret.there > ret.len)
		ret.there = ret.len;
	return ret;
}

// What of a view lies in front of and behind the range stays. Returns the part of it that was in the range.
static struct gr_view cut(uint32_t i, uint64_t addr, uint64_t end)
{
	struct gr_view v = views[i], inside, rest;
	uint64_t v_end = v.addr + v.len;
	uint64_t from = v.addr > addr ? v.addr : addr, to = v_end < end ? v_end : end;
	inside = part(&v, from, to);
	rest = part(&v, to, v_end);
	views[i] = part(&v, v.addr, from);
	append(rest);
	return inside;
}

static bool meets(const struct gr_view *v, uint64_t addr, uint64_t end)
{
	return v->len && v->addr < end && addr < v->addr + v->len;
}

static void forget(uint64_t addr, uint64_t end)
{
	for (uint32_t i = 0; i < count; i++)
		if (meets(&views[i], addr, end))
			cut(i, addr, end);
	uint32_t kept = 0;
	for (uint32_t i = 0; i < count; i++)
		if (views[i].len)
			views[kept++] = views[i];
	count = kept;
}

// Stores to a shared view show in a private one as well, where that was not written to. A replay has no such memory.
static bool is_mixed(const struct gr_view *a, const struct gr_view *b)
{
	bool same = a->key && a->key == b->key && a->len && a->offset < b->offset + b->len && b->offset < a->offset + a->len;
	return same && a->shared != b->shared && (a->shared ? a->writable : b->writable);
}

void gr_view_add(struct gr_view view)
{
	static bool told;
	gr_latch(&held);
	forget(view.addr, view.addr + view.len);
	for (uint32_t i = 0; i < count && !told; i++)
		if (is_mixed(&view, &views[i])) {
			told = true;
			gr_notice("a file was mapped to be private and to be shared at a time: what was stored to a shared view"
				  " shows in a private one, but not in a replay");
		}
	append(view);
	gr_unlatch(&held);
}

void gr_view_forget(uint64_t addr, uint64_t len)
{
	gr_latch(&held);
	forget(addr, addr + len);
	gr_unlatch(&held);
}

static void copy_out(uint64_t addr, uint64_t len, struct gr_stores *stores)
{
	char page[4096];
	while (len) {
		uint64_t n = 4096 - (addr & 4095);
		n = n < len ? n : len;
		if (gr_peek(page, addr, n) == n) // else: behind the end of the file
			gr_store_add(stores, GR_STORE_BYTES, addr, n, 0, page);
		addr += n;
		len -= n;
	}
}

// Of memory that may lie behind the end of its file: how much is there. Without the right to read it nobody can say.
static uint64_t reaches(uint64_t addr, uint64_t len, int prot)
{
	char byte;
	uint64_t there = 0, beyond = len / 4096 + 1; // in pages
	if (!(prot & PROT_READ))
		return len;
	while (beyond - there > 1) {
		uint64_t middle = there + (beyond - there) / 2;
		if (gr_peek(&byte, addr + (middle - 1) * 4096, 1) == 1)
			there = middle;
		else
			beyond = middle;
	}
	return there * 4096;
}

// Two shared views show some of the same: `at` of the one and `other_at` of the other.
static bool meet(const struct gr_view *a, const struct gr_view *b, uint64_t *at, uint64_t *other_at, uint64_t *len)
{
	uint64_t from = a->offset > b->offset ? a->offset : b->offset;
	uint64_t a_end = a->offset + a->there, b_end = b->offset + b->there, to = a_end < b_end ? a_end : b_end;
	if (!a->len || !b->len || !a->shared || !b->shared || !a->key || a->key != b->key || a->addr == b->addr || from >= to)
		return false;
	*at = a->addr + (from - a->offset);
	*other_at = b->addr + (from - b->offset);
	*len = to - from;
	return a->writable || b->writable;
}

// A view in this range takes over the memory of the first other one that shows the same, and all the rest take over its own.
static void link_one(const struct gr_view *v, struct gr_stores *stores)
{
	uint64_t at, other_at, len;
	bool first = true;
	for (uint32_t k = 0; k < count; k++) {
		if (!meet(v, &views[k], &at, &other_at, &len))
			continue;
		gr_store_add(stores, GR_STORE_ORIGIN, first ? other_at : at, 0, 0, NULL);
		gr_store_add(stores, GR_STORE_ALIAS, first ? at : other_at, len, first ? v->prot : views[k].prot, NULL);
		first = false;
	}
	if (!first)
		gr_outside_own_file(v->key);
}

static void link_in(uint64_t addr, uint64_t end, struct gr_stores *stores)
{
	for (uint32_t i = 0; i < count; i++)
		if (meets(&views[i], addr, end))
			link_one(&views[i], stores);
}

// Its new part is told whole: a replay, which has no file, finds zeros there.
static void grown(struct gr_view *v, uint64_t by, struct gr_stores *stores)
{
	uint64_t old_len = v->len;
	v->len += by;
	if (v->there == old_len)
		v->there += reaches(v->addr + old_len, by, v->prot);
	if (v->there > old_len) {
		gr_store_add(stores, GR_STORE_MAP, v->addr + old_len, v->there - old_len, v->prot, NULL);
		copy_out(v->addr + old_len, v->there - old_len, stores);
	}
	if (v->there < v->len) {
		uint64_t from = v->there > old_len ? v->there : old_len;
		gr_store_add(stores, GR_STORE_VOID, v->addr + from, v->len - from, v->prot, NULL);
	}
}

void gr_view_moved(uint64_t from, uint64_t old_len, uint64_t to, uint64_t new_len, bool stays, struct gr_stores *stores)
{
	gr_latch(&held);
	for (uint32_t i = 0, n = count; i < n; i++) {
		if (!meets(&views[i], from, from + old_len))
			continue;
		struct gr_view moved = cut(i, from, from + old_len);
		if (stays) { // the old place shows the file again
			append(moved);
			copy_out(moved.addr, moved.there, stores);
		}
		moved.addr = to + (moved.addr - from);
		uint64_t end = moved.addr - to + moved.len;
		if (new_len < end)
			moved = part(&moved, moved.addr, new_len > moved.addr - to ? to + new_len : moved.addr);
		else if (end == old_len && new_len > old_len)
			grown(&moved, new_len - old_len, stores);
		append(moved);
	}
	forget(0, 0); // drops the empty ones
	if (new_len > old_len)
		link_in(to + old_len, to + new_len, stores);
	gr_unlatch(&held);
}

void gr_view_dont_fork(uint64_t addr, uint64_t len, bool dont)
{
	gr_latch(&held);
	for (uint32_t i = 0, n = count; i < n; i++)
		if (meets(&views[i], addr, addr + len)) {
			struct gr_view inside = cut(i, addr, addr + len);
			inside.dont_fork = dont;
			append(inside);
		}
	gr_unlatch(&held);
}

bool gr_view_any(uint64_t addr, uint64_t len)
{
	bool found = false;
	gr_latch(&held);
	for (uint32_t i = 0; i < count && !found; i++)
		found = meets(&views[i], addr, addr + len);
	gr_unlatch(&held);
	return found;
}

bool gr_view_shared_writable(void)
{
	bool found = false;
	gr_latch(&held);
	for (uint32_t i = 0; i < count && !found; i++)
		found = views[i].len && views[i].shared && views[i].writable && !views[i].dont_fork;
	gr_unlatch(&held);
	return found;
}

void gr_view_link(uint64_t addr, uint64_t len, struct gr_stores *stores)
{
	gr_latch(&held);
	link_in(addr, addr + len, stores);
	gr_unlatch(&held);
}

uint32_t gr_view_nameless(void)
{
	static uint32_t last = GR_KEY_MEMORY;
	return __atomic_add_fetch(&last, 2, __ATOMIC_RELAXED); // those of files are odd
}

bool gr_view_protect(uint64_t addr, uint64_t len, int prot)
{
	bool found = false;
	gr_latch(&held);
	for (uint32_t i = 0, n = count; i < n; i++)
		if (meets(&views[i], addr, addr + len)) {
			struct gr_view inside = cut(i, addr, addr + len);
			if (prot & PROT_WRITE && inside.shared && !inside.writable)
				inside.writable = found = true;
			inside.prot = prot;
			append(inside);
		}
	forget(0, 0);
	gr_unlatch(&held);
	return found;
}

// The part of a shared view that is mapped once more.
bool gr_view_again(uint64_t from, uint64_t to, uint64_t len, struct gr_stores *stores)
{
	bool known = false;
	gr_latch(&held);
	for (uint32_t i = 0, n = count; i < n && !known; i++) {
		if (!meets(&views[i], from, from + 1) || !views[i].shared)
			continue;
		struct gr_view again = views[i];
		again.offset += from - again.addr;
		again.there = again.addr + again.there > from ? again.addr + again.there - from : 0;
		again.addr = to;
		again.len = len;
		if (again.there > len)
			again.there = len;
		else if (again.there < len)
			again.there = reaches(to, len, again.prot);
		forget(to, to + len);
		append(again);
		gr_store_add(stores, GR_STORE_MAP, to, again.there, again.prot, NULL);
		copy_out(to, again.there, stores);
		if (again.there < len)
			gr_store_add(stores, GR_STORE_VOID, to + again.there, len - again.there, again.prot, NULL);
		link_in(to, to + len, stores);
		known = true;
	}
	gr_unlatch(&held);
	return known;
}

// ---------------------------------------------------------------- what changed
// The part of every view of the file that shows `len` bytes from `offset` on.
static void changed(uint32_t key, uint64_t offset, uint64_t len, bool zeroed, struct gr_stores *stores)
{
	if (!key)
		return;
	gr_outside_own_file(key);
	gr_latch(&held);
	for (uint32_t i = 0; i < count; i++) {
		const struct gr_view *v = &views[i];
		uint64_t end = offset + len < offset ? ~0ULL : offset + len;
		uint64_t from = offset > v->offset ? offset : v->offset;
		uint64_t to = end < v->offset + v->len ? end : v->offset + v->len;
		if (v->key != key || from >= to)
			continue;
		if (to > v->offset + v->there)
			to = v->offset + v->there;
		if (from >= to)
			continue;
		if (zeroed && v->shared) // who wrote to a view of his own has pages of his own
			gr_store_add(stores, GR_STORE_ZERO, v->addr + (from - v->offset), to - from, 0, NULL);
		else
			copy_out(v->addr + (from - v->offset), to - from, stores);
	}
	gr_unlatch(&held);
}

static uint64_t size_of(int fd)
{
	struct stat st;
	return GR_RAW(SYS_fstat, fd, &st) ? 0 : st.st_size;
}

// The file is as long as this now. What lies behind its end is no memory any more; what it has more is, and is empty.
static void resized(uint32_t key, uint64_t size, struct gr_stores *stores)
{
	if (!key)
		return;
	gr_outside_own_file(key);
	bool more = false;
	gr_latch(&held);
	for (uint32_t i = 0; i < count; i++) {
		struct gr_view *v = &views[i];
		if (v->key != key || !v->len)
			continue;
		uint64_t end = size > v->offset ? size - v->offset : 0, was = v->there;
		v->there = gr_whole_pages(end) < v->len ? gr_whole_pages(end) : v->len;
		if (v->there < was)
			gr_store_add(stores, GR_STORE_VOID, v->addr + v->there, was - v->there, v->prot, NULL);
		else if (v->there > was)
			gr_store_add(stores, GR_STORE_MAP, v->addr + was, v->there - was, v->prot, NULL);
		more |= v->there > was;
		if (end < v->there && v->there <= was) // the rest of the last page is empty
			copy_out(v->addr + end, v->there - end, stores);
	}
	for (uint32_t i = 0; more && i < count; i++)
		if (views[i].key == key)
			link_in(views[i].addr, views[i].addr + views[i].there, stores);
	gr_unlatch(&held);
}

void gr_view_contents(uint64_t addr, uint64_t len, struct gr_stores *stores)
{
	gr_latch(&held);
	for (uint32_t i = 0; i < count; i++) {
		const struct gr_view *v = &views[i];
		uint64_t from = addr > v->addr ? addr : v->addr;
		uint64_t to = addr + len < v->addr + v->len ? addr + len : v->addr + v->len;
		if (from < to)
			copy_out(from, to - from, stores);
	}
	gr_unlatch(&held);
}

// Is anything of this file mapped?
static bool is_shown(uint32_t key)
{
	bool found = false;
	if (!key)
		return false;
	gr_latch(&held);
	for (uint32_t i = 0; i < count && !found; i++)
		found = views[i].key == key;
	gr_unlatch(&held);
	return found;
}

static uint64_t position(int fd)
{
	return GR_RAW(SYS_lseek, fd, 0, SEEK_CUR);
}

// Where the written bytes end: behind an explicit offset, or at the descriptor's position.
static uint64_t end_of(int fd, uint64_t pointer)
{
	uint64_t at;
	return pointer && gr_peek(&at, pointer, sizeof at) == sizeof at ? at : position(fd);
}

// The program writes to its own memory as if it were another process, perhaps to its code.
static void written_to_self(uint64_t addr, uint64_t n, struct gr_stores *stores)
{
	copy_out(addr, n, stores);
	gr_patch_forget(addr, n);
}

static void written_to_parts(const struct gr_call *call, struct gr_stores *stores)
{
	struct iovec iov;
	uint64_t left = call->result;
	for (uint64_t i = 0; left && i < call->arg[4]; i++) {
		if (gr_peek(&iov, call->arg[3] + i * sizeof iov, sizeof iov) != sizeof iov)
			return;
		uint64_t n = left < iov.iov_len ? left : iov.iov_len;
		written_to_self((uint64_t)iov.iov_base, n, stores);
		left -= n;
	}
}

static bool is_own(int id)
{
	return id == gr_pid() || (id > 0 && gr_thread_by_tid(id));
}

void gr_view_written(const struct gr_call *call, struct gr_stores *stores)
{
	const uint64_t *a = call->arg;
	uint64_t n = call->result, end;
	int fd = call->nr == SYS_splice || call->nr == SYS_copy_file_range ? a[2] : a[0];
	if (!(call->sys->flags & GR_SF_IRREVOCABLE || gr_fd_makes(call)) || GR_IS_ERR(call->result))
		return;
	bool memory = gr_fd_key(fd) == GR_KEY_MEMORY;
	if (call->sys->fx[0].kind == GR_FX_FD && !gr_fd_makes(call) && !memory && !is_shown(gr_fd_key(fd)))
		return;
	switch (call->nr) {
	case SYS_write:
	case SYS_writev:
		end = position(fd);
		break;
	case SYS_pwrite64:
	case SYS_pwritev:
		end = a[3] + n;
		break;
	case SYS_pwritev2:
		end = a[3] == ~0ULL ? position(fd) : a[3] + n;
		break;
	case SYS_sendfile:
		end = position(fd);
		break;
	case SYS_splice:
	case SYS_copy_file_range:
		end = end_of(fd, a[3]);
		break;
	case SYS_process_vm_writev:
		if (is_own((int)a[0]))
			written_to_parts(call, stores);
		return;
	case SYS_ftruncate:
		resized(gr_fd_key(fd), a[1], stores);
		return;
	case SYS_truncate:
		resized(gr_file_key(AT_FDCWD, a[0], 0), a[1], stores);
		return;
	case SYS_fallocate:
		resized(gr_fd_key(fd), size_of(fd), stores);
		if (a[1] & 0x12) // FALLOC_FL_PUNCH_HOLE, FALLOC_FL_ZERO_RANGE
			changed(gr_fd_key(fd), a[2], a[3], true, stores);
		else if (a[1] & 0x28) // FALLOC_FL_COLLAPSE_RANGE, FALLOC_FL_INSERT_RANGE
			changed(gr_fd_key(fd), a[2], ~0ULL - a[2], false, stores);
		return;
	case SYS_creat:
	case SYS_open:
	case SYS_openat:
		if (call->nr == SYS_creat || a[call->nr == SYS_open ? 1 : 2] & O_TRUNC)
			resized(gr_fd_key(call->result), 0, stores);
		return;
	default:
		return;
	}
	if (memory)
		written_to_self(end - n, n, stores);
	if (!n || memory)
		return;
	resized(gr_fd_key(fd), size_of(fd), stores);
	changed(gr_fd_key(fd), end - n, n, false, stores);
}
