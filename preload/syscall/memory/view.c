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
#include "../descriptor.h"
#include "memory.h"
#include "outside.h"

#define VIEWS 16384

struct view { uint64_t addr, len, offset; uint32_t key; bool shared, writable, dont_fork; };

static struct view views[VIEWS];
static uint32_t count;
static uint32_t held; // for a few hundred instructions, none of which waits

static void append(struct view view)
{
	if (!view.len)
		return;
	if (count == VIEWS)
		gr_panic(gr_self, GR_PANIC_REFUSED, "more than %u mappings of files at a time", VIEWS, 0);
	views[count++] = view;
}

// What of a view lies in front of and behind the range stays. Returns the part of it that was in the range.
static struct view cut(uint32_t i, uint64_t addr, uint64_t end)
{
	struct view v = views[i], inside = v, rest = v;
	uint64_t v_end = v.addr + v.len;
	uint64_t from = v.addr > addr ? v.addr : addr, to = v_end < end ? v_end : end;
	inside.addr = from;
	inside.len = to - from;
	inside.offset += from - v.addr;
	views[i].len = from - v.addr;
	rest.addr = to;
	rest.len = v_end - to;
	rest.offset += to - v.addr;
	append(rest);
	return inside;
}

static bool meets(const struct view *v, uint64_t addr, uint64_t end)
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

void gr_view_add(uint64_t addr, uint64_t len, uint32_t key, uint64_t offset, bool shared, bool may_write)
{
	gr_latch(&held);
	forget(addr, addr + len);
	append((struct view){addr, len, offset, key, shared, may_write, false});
	gr_unlatch(&held);
}

void gr_view_forget(uint64_t addr, uint64_t len)
{
	gr_latch(&held);
	forget(addr, addr + len);
	gr_unlatch(&held);
}

void gr_view_moved(uint64_t from, uint64_t old_len, uint64_t to, uint64_t new_len)
{
	gr_latch(&held);
	for (uint32_t i = 0, n = count; i < n; i++) {
		if (!meets(&views[i], from, from + old_len))
			continue;
		struct view moved = cut(i, from, from + old_len);
		moved.addr = to + (moved.addr - from);
		moved.len = moved.addr - to + moved.len == old_len ? new_len - (moved.addr - to) : moved.len;
		append(moved);
	}
	forget(0, 0); // drops the empty ones
	gr_unlatch(&held);
}

void gr_view_dont_fork(uint64_t addr, uint64_t len, bool dont)
{
	gr_latch(&held);
	for (uint32_t i = 0, n = count; i < n; i++)
		if (meets(&views[i], addr, addr + len)) {
			struct view inside = cut(i, addr, addr + len);
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

// Another shared view of the same part of the file.
static bool doubled(const struct view *v)
{
	for (uint32_t i = 0; i < count; i++)
		if (views[i].len && views[i].addr != v->addr && views[i].shared && v->key && views[i].key == v->key &&
		    views[i].offset < v->offset + v->len && v->offset < views[i].offset + views[i].len)
			return true;
	return false;
}

bool gr_view_protect(uint64_t addr, uint64_t len, bool *alias)
{
	bool found = false;
	gr_latch(&held);
	for (uint32_t i = 0, n = count; i < n; i++)
		if (meets(&views[i], addr, addr + len) && views[i].shared && !views[i].writable) {
			struct view inside = cut(i, addr, addr + len);
			inside.writable = found = true;
			*alias |= doubled(&inside);
			append(inside);
		}
	forget(0, 0);
	gr_unlatch(&held);
	return found;
}

bool gr_view_alias(uint32_t key, bool shared, bool may_write)
{
	bool found = false;
	gr_latch(&held);
	for (uint32_t i = 0; i < count && !found; i++)
		found = views[i].len && key && views[i].key == key && views[i].shared && shared && (views[i].writable || may_write);
	gr_unlatch(&held);
	return found;
}

// ---------------------------------------------------------------- what changed
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

// The part of every view of the file that shows `len` bytes from `offset` on.
static void changed(uint32_t key, uint64_t offset, uint64_t len, bool zeroed, struct gr_stores *stores)
{
	if (!key)
		return;
	gr_outside_own_file(key);
	gr_latch(&held);
	for (uint32_t i = 0; i < count; i++) {
		const struct view *v = &views[i];
		uint64_t end = offset + len < offset ? ~0ULL : offset + len;
		uint64_t from = offset > v->offset ? offset : v->offset;
		uint64_t to = end < v->offset + v->len ? end : v->offset + v->len;
		if (v->key != key || from >= to)
			continue;
		if (zeroed)
			gr_store_add(stores, GR_STORE_ZERO, v->addr + (from - v->offset), to - from, 0, NULL);
		else
			copy_out(v->addr + (from - v->offset), to - from, stores);
	}
	gr_unlatch(&held);
}

void gr_view_contents(uint64_t addr, uint64_t len, struct gr_stores *stores)
{
	gr_latch(&held);
	for (uint32_t i = 0; i < count; i++) {
		const struct view *v = &views[i];
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

// The program writes to its own memory as if it were another process.
static void written_to_self(const struct gr_call *call, struct gr_stores *stores)
{
	struct iovec iov;
	uint64_t left = call->result;
	for (uint64_t i = 0; left && i < call->arg[4]; i++) {
		if (gr_peek(&iov, call->arg[3] + i * sizeof iov, sizeof iov) != sizeof iov)
			return;
		uint64_t n = left < iov.iov_len ? left : iov.iov_len;
		copy_out((uint64_t)iov.iov_base, n, stores);
		left -= n;
	}
}

void gr_view_written(const struct gr_call *call, struct gr_stores *stores)
{
	const uint64_t *a = call->arg;
	uint64_t n = call->result, end;
	int fd = call->nr == SYS_splice || call->nr == SYS_copy_file_range ? a[2] : a[0];
	if (!(call->sys->flags & GR_SF_IRREVOCABLE || gr_fd_makes(call)) || GR_IS_ERR(call->result))
		return;
	if (call->sys->fx[0].kind == GR_FX_FD && !gr_fd_makes(call) && !is_shown(gr_fd_key(fd)))
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
		if ((int)a[0] == gr_pid())
			written_to_self(call, stores);
		return;
	case SYS_ftruncate:
		changed(gr_fd_key(fd), a[1], ~0ULL - a[1], true, stores);
		return;
	case SYS_truncate:
		changed(gr_file_key(AT_FDCWD, a[0], 0), a[1], ~0ULL - a[1], true, stores);
		return;
	case SYS_fallocate:
		if (a[1] & 0x12) // FALLOC_FL_PUNCH_HOLE, FALLOC_FL_ZERO_RANGE
			changed(gr_fd_key(fd), a[2], a[3], true, stores);
		else if (a[1] & 0x28) // FALLOC_FL_COLLAPSE_RANGE, FALLOC_FL_INSERT_RANGE
			changed(gr_fd_key(fd), a[2], ~0ULL - a[2], false, stores);
		return;
	case SYS_creat:
	case SYS_open:
	case SYS_openat:
		if (call->nr == SYS_creat || a[call->nr == SYS_open ? 1 : 2] & O_TRUNC)
			changed(gr_fd_key(call->result), 0, ~0ULL, true, stores);
		return;
	default:
		return;
	}
	if (n)
		changed(gr_fd_key(fd), end - n, n, false, stores);
}
