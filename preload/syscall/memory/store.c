// Stores that are no output of their call: what a vfork child left behind, what a write changed in views of the file.
// Runs in: application threads, on the engine's stack; the child of a vfork (gr_store_add).
// May call: core.
// Owns: the format of stores in a demo; see memory.h.
#include <fcntl.h>
#include <sys/mman.h>

#include "../../core/copy.h"
#include "../../core/nolibc.h"
#include "../../core/raw.h"
#include "../../patch/patch.h"
#include "../descriptor.h"
#include "../fd/output.h"
#include "../fd/refer.h"
#include "alias.h"
#include "memory.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

extern const char __ehdr_start[] __attribute__((visibility("hidden"))), _end[] __attribute__((visibility("hidden")));

static uint64_t padded(uint64_t n)
{
	return (n + 7) & ~7ULL;
}

// Of bytes that a demo claims to hold: a length near 2^64 has no padding.
static bool fits(uint64_t n, uint64_t room)
{
	return n <= room && padded(n) <= room;
}

void gr_store_add(struct gr_stores *stores, enum gr_store_kind kind, uint64_t addr, uint64_t len, uint32_t arg, const void *bytes)
{
	uint64_t need = sizeof(struct gr_store) + (bytes ? padded(len) : 0);
	if (stores->full || (uint64_t)(stores->end - stores->at) < need) {
		stores->full = true;
		return;
	}
	*(struct gr_store *)stores->at = (struct gr_store){addr, len, kind, arg};
	if (bytes) {
		uint64_t tail = padded(len) - len;
		memcpy(stores->at + sizeof(struct gr_store), bytes, len);
		memset(stores->at + sizeof(struct gr_store) + len, 0, tail);
	}
	stores->at += need;
}

// What the protection of a page is.
struct place { uint64_t addr; int prot; };

static void find_place(const struct gr_map *map, void *arg)
{
	struct place *place = arg;
	if (place->addr >= map->start && place->addr < map->end)
		place->prot = map->prot;
}

// Memory that the program may only read, or execute.
static bool put(uint64_t addr, const void *bytes, uint64_t len)
{
	uint64_t first = addr & ~4095ULL, end = (addr + len + 4095) & ~4095ULL;
	if (GR_RAW(SYS_madvise, first, end - first, MADV_POPULATE_WRITE) == 0) {
		memcpy((void *)addr, bytes, len);
		return true;
	}
	struct place place = {addr, PROT_READ};
	gr_maps_each(find_place, &place);
	gr_patch_forget(addr, len);
	return gr_text_write(addr, bytes, len, place.prot);
}

static bool zero(uint64_t addr, uint64_t len)
{
	static const char nothing[4096];
	while (len) {
		uint64_t n = len < sizeof nothing ? len : sizeof nothing;
		if (!put(addr, nothing, n))
			return false;
		addr += n;
		len -= n;
	}
	return true;
}

static bool outside_engine(const struct gr_store *s)
{
	uint64_t end = s->addr + s->len;
	return end >= s->addr && (end <= GR_ZONE || s->addr >= GR_ZONE_END) &&
	       (end <= (uint64_t)__ehdr_start || s->addr >= (uint64_t)_end);
}

static bool map(const struct gr_store *s, uint64_t *origin)
{
	switch (s->kind) {
	case GR_STORE_BREAK:
		return GR_RAW(SYS_brk, s->addr) == (long)s->addr;
	case GR_STORE_MAP:
		return GR_RAW(SYS_mmap, s->addr, s->len, gr_protection(s->arg), MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == (long)s->addr;
	case GR_STORE_UNMAP:
		return GR_RAW(SYS_munmap, s->addr, s->len) == 0;
	case GR_STORE_PROTECT:
		return GR_RAW(SYS_mprotect, s->addr, s->len, gr_protection(s->arg)) == 0;
	case GR_STORE_VOID:
		return gr_void_map(s->addr, s->len, s->arg);
	case GR_STORE_ORIGIN:
		*origin = s->addr;
		return true;
	case GR_STORE_ALIAS:
		return outside_engine(&(struct gr_store){*origin, s->len, 0, 0}) && gr_alias_map(*origin, s->addr, s->len, gr_protection(s->arg));
	case GR_STORE_ADVICE:
		gr_advice_follow(s->addr, s->len, s->arg);
	}
	return true;
}

bool gr_stores_apply(const uint8_t *data, uint64_t len, enum gr_store_part part)
{
	const uint8_t *end = data + len;
	uint64_t origin = 0;
	while (data < end) {
		struct gr_store s;
		if ((uint64_t)(end - data) < sizeof s)
			return false;
		memcpy(&s, data, sizeof s);
		data += sizeof s;
		if (s.kind == GR_STORE_FD) {
			gr_fd_set(s.addr, s.arg);
			continue;
		}
		if (s.kind == GR_STORE_ECHO || s.kind == GR_STORE_CHDIR) {
			if (!fits(s.len, end - data) || !s.len)
				return false;
			if (s.kind == GR_STORE_ECHO)
				gr_output_bytes(s.arg, data, s.len);
			else if (!data[s.len - 1]) // one that the program made is not here; what is in it is recorded
				GR_RAW(SYS_chdir, data);
			data += padded(s.len);
			continue;
		}
		if (!outside_engine(&s))
			return false;
		if (s.kind == GR_STORE_FILE) {
			struct gr_store_file file;
			if ((uint64_t)(end - data) < sizeof file)
				return false;
			memcpy(&file, data, sizeof file);
			data += sizeof file;
			if (part != GR_STORE_MAPPINGS && !gr_refer_put(&s, &file))
				return false;
			continue;
		}
		bool content = s.kind == GR_STORE_BYTES || s.kind == GR_STORE_ZERO;
		if (s.kind == GR_STORE_BYTES && !fits(s.len, end - data))
			return false;
		if (!content && part != GR_STORE_CONTENTS) {
			if (!map(&s, &origin))
				return false;
			if (gr_copy_mapped && (s.kind == GR_STORE_MAP || s.kind == GR_STORE_UNMAP || s.kind == GR_STORE_VOID || s.kind == GR_STORE_ALIAS))
				gr_copy_mapped(s.addr, s.len);
		}
		if (content && part != GR_STORE_MAPPINGS &&
		    !(s.kind == GR_STORE_ZERO ? zero(s.addr, s.len) : put(s.addr, data, s.len)))
			return false;
		if (s.kind == GR_STORE_BYTES)
			data += padded(s.len);
	}
	return true;
}
