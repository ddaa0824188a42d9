// One part of a file at two places of memory, on replay: a store to the one shows in the other.
// Runs in: application threads of a replay, on the engine's stack; copies that were just made, which have one task.
// May call: core.
// Owns: whether there ever was such memory.
//
// A replay has private memory where the program shared a file with itself. INVARIANT(shared-with-itself-only): where two places have
// to show the same, they are memory without a name that is mapped twice, which the kernel does by mremap with the old length 0, and
// which the fence allows. Copies of the process would share it, too; so each makes memory of its own of it before anybody stores there.
#include "alias.h"

#include <linux/futex.h>
#include <sys/mman.h>

#include "../../core/copy.h"
#include "../../core/nolibc.h"
#include "../../core/page.h"
#include "../../core/panic.h"
#include "../../core/raw.h"
#include "memory.h"

#define MOST 2048 // mappings of such memory
#define AT_ONCE 1024

static struct gr_map found[MOST];
static uint32_t count;
static uint64_t from, to;       // collected are those in there,
static bool shared_only;        // or all that are shared
static bool some;
static uint32_t *const copied = (uint32_t *)GR_SHARE_ADDR; // a child has its own: its parent waits for that

static void collect(const struct gr_map *map, void *arg)
{
	(void)arg;
	bool wanted = shared_only ? map->shared && !gr_map_is_engines(map) : map->start < to && map->end > from;
	if (!wanted)
		return;
	if (count == MOST)
		gr_panic(gr_self, GR_PANIC_REFUSED, "more than %u mappings of files that are mapped twice", MOST, 0);
	found[count] = *map;
	if (!shared_only) {
		uint64_t start = map->start > from ? map->start : from;
		found[count].offset += start - map->start;
		found[count].start = start;
		found[count].end = map->end < to ? map->end : to;
	}
	count++;
}

static bool look(uint64_t start, uint64_t end, bool shared)
{
	from = start;
	to = end;
	shared_only = shared;
	count = 0;
	return gr_maps_each(collect, NULL);
}

// In the windows of threads that there hardly ever are.
#define PLACE (GR_WINDOW_ADDR + GR_LIVE_THREADS / 2 * GR_WINDOW_SIZE)
#define MOST_BYTES (GR_LIVE_THREADS / 2 * GR_WINDOW_SIZE)

static uint64_t fresh(uint64_t len)
{
	int flags = MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
	long at = len <= MOST_BYTES ? GR_RAW(SYS_mmap, PLACE, len, PROT_READ | PROT_WRITE, flags, -1, 0) : 0;
	return at == (long)PLACE ? PLACE : 0;
}

// What is there, and not all zeros. Of the file that a private mapping shows the kernel may have nothing in memory.
static void copy(const struct gr_map *map, uint64_t dst)
{
	unsigned char there[AT_ONCE];
	char page[4096];
	static const char zeros[4096];
	bool of_file = map->inode && !map->shared;
	for (uint64_t at = map->start; at < map->end; at += 4096) {
		uint64_t place = (at - map->start) / 4096 % AT_ONCE, left = map->end - at;
		if (place == 0 && GR_RAW(SYS_mincore, at, left < AT_ONCE * 4096 ? left : AT_ONCE * 4096, there))
			memset(there, 1, sizeof there);
		if (!of_file && !(there[place] & 1))
			continue;
		if (gr_peek(page, at, sizeof page) == sizeof page && memcmp(page, zeros, sizeof page))
			memcpy((void *)(dst + (at - map->start)), page, sizeof page);
	}
}

// A part of `object` takes the place of a mapping.
static bool put(uint64_t object, uint64_t addr, uint64_t len, int prot)
{
	return GR_RAW(SYS_mremap, object, 0, len, MREMAP_MAYMOVE | MREMAP_FIXED, addr) == (long)addr &&
	       GR_RAW(SYS_mprotect, addr, len, prot) == 0;
}

static bool is_readable(const struct gr_map *map)
{
	char byte;
	if (!(map->prot & PROT_READ))
		GR_RAW(SYS_mprotect, map->start, map->end - map->start, map->prot | PROT_READ);
	return gr_peek(&byte, map->start, 1) == 1;
}

bool gr_alias_map(uint64_t src, uint64_t dst, uint64_t len, int prot)
{
	bool done = look(src, src + len, false);
	for (uint32_t i = 0; i < count && done; i++) {
		struct gr_map *map = &found[i];
		uint64_t size = map->end - map->start, object = 0;
		bool there = is_readable(map);
		if (there && !map->shared && (object = fresh(size))) {
			copy(map, object);
			done = put(object, map->start, size, map->prot);
			GR_RAW(SYS_munmap, object, size);
		} else if (!(map->prot & PROT_READ)) {
			GR_RAW(SYS_mprotect, map->start, size, map->prot);
		}
		if (there) // else it lies behind the end of the file, at both places
			done = done && (map->shared || object) && put(map->start, dst + (map->start - src), size, prot);
	}
	some = true;
	return done;
}

// ---------------------------------------------------------------- copies of the process
void gr_alias_before(void)
{
	if (some)
		GR_RAW(SYS_mmap, copied, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

void gr_alias_await(void)
{
	while (some && !__atomic_load_n(copied, __ATOMIC_ACQUIRE))
		GR_RAW(SYS_futex, copied, FUTEX_WAIT, 0, 0, 0, 0);
}

// All places of one object, in a new one.
static bool remake(uint32_t first)
{
	const struct gr_map *one = &found[first];
	uint64_t size = 0;
	for (uint32_t i = first; i < count; i++)
		if (found[i].inode == one->inode && size < found[i].offset + (found[i].end - found[i].start))
			size = found[i].offset + (found[i].end - found[i].start);
	uint64_t object = fresh(size);
	for (uint32_t i = first; i < count && object; i++)
		if (found[i].inode == one->inode && is_readable(&found[i]))
			copy(&found[i], object + found[i].offset);
	uint64_t inode = one->inode;
	bool done = object != 0;
	for (uint32_t i = first; i < count && done; i++)
		if (found[i].inode == inode) {
			done = put(object + found[i].offset, found[i].start, found[i].end - found[i].start, found[i].prot);
			found[i].inode = 0;
		}
	GR_RAW(SYS_munmap, object, size);
	return done;
}

void gr_alias_copied(bool parent_waits)
{
	if (!some)
		return;
	bool done = look(0, ~0ULL, true);
	for (uint32_t i = 0; i < count && done; i++)
		done = !found[i].inode || remake(i);
	if (!done)
		gr_panic(gr_self, GR_PANIC_BUG, "memory that is mapped twice cannot be copied", 0, 0);
	if (parent_waits) {
		__atomic_store_n(copied, 1, __ATOMIC_RELEASE);
		GR_RAW(SYS_futex, copied, FUTEX_WAKE, 1, 0, 0, 0);
	}
}
