// The state of a standing process as a few numbers; see kept.h.
// Runs in: the thread of a replay that stands; application threads, which say what they map.
// May call: core, ctl.
// Owns: the hash of each page as it was at the newest look, in the engine's own zone.
#include "kept.h"

#include <sys/mman.h>

#include "../core/nolibc.h"
#include "../core/page.h"
#include "../core/panic.h"
#include "../core/raw.h"
#include "../ctl/slot.h"
#include "areas.h"
#include "digest.h"
#include "mask.h"

#define KEPT_ADDR (GR_WORK_ADDR + GR_WORK_SIZE)
#define GROUP_BYTES ((uint64_t)GR_DIGEST_PAGES * GR_PAGE)
#define GROUPS 0x40000U // 64 GiB of memory in use
#define INDEX 0x80000U
#define STRETCHES 1024U
#define FREE_BYTES 0x10000000

// Groups are added and never taken out; what is gone from one has no bit any more.
struct group {
	uint64_t start;
	uint64_t known; // pages that were looked at
	uint64_t pages; // those of them that are not zero
	uint64_t spans; // those of them of which something was left out because of where threads stood
	uint32_t hash[GR_DIGEST_PAGES];
};

static struct kept {
	uint32_t index[INDEX]; // by start: 1 + the place of a group
	struct group group[GROUPS];
	uint64_t covered[GROUPS]; // pages of each group that there are now
} *const kept = (struct kept *)KEPT_ADDR;

_Static_assert(sizeof(struct kept) <= FREE_BYTES && KEPT_ADDR + FREE_BYTES <= GR_SCRATCH_ADDR, "zone layout");

static bool mapped, on, current;
static uint32_t groups;
static uint64_t memory; // the sum over all pages that are not zero
static struct { uint64_t start, end; } stretch[STRETCHES];
static uint32_t stretches;

void gr_kept_run(void)
{
	current = false;
}

// INVARIANT(too-many-is-all): what finds no place makes the next look one at all pages.
void gr_kept_changed(uint64_t start, uint64_t end)
{
	if (!on)
		return;
	uint32_t n = __atomic_fetch_add(&stretches, 1, __ATOMIC_RELAXED);
	if (n < STRETCHES) {
		stretch[n].start = start;
		stretch[n].end = end;
	}
}

static bool was_changed(uint64_t page)
{
	for (uint32_t i = 0; i < stretches; i++)
		if (stretch[i].start < page + GR_PAGE && page < stretch[i].end)
			return true;
	return false;
}

// ---------------------------------------------------------------- pages
static uint64_t weight(uint64_t page, uint32_t hash)
{
	return hash ? gr_hash_word(gr_hash_word(GR_HASH_SEED, page), hash) : 0;
}

static struct group *group_at(uint64_t start)
{
	uint32_t at = gr_hash_word(GR_HASH_SEED, start) % INDEX;
	for (; kept->index[at]; at = (at + 1) % INDEX)
		if (kept->group[kept->index[at] - 1].start == start)
			return &kept->group[kept->index[at] - 1];
	if (groups == GROUPS)
		return NULL;
	kept->index[at] = ++groups;
	kept->group[groups - 1].start = start;
	return &kept->group[groups - 1];
}

static void set(struct group *group, unsigned i, uint32_t hash)
{
	uint64_t bit = 1ULL << i, page = group->start + i * (uint64_t)GR_PAGE;
	if (group->pages & bit)
		memory -= weight(page, group->hash[i]);
	memory += weight(page, hash);
	group->pages = hash ? group->pages | bit : group->pages & ~bit;
	group->hash[i] = hash;
}

// False where there are too many.
static bool look_at(const struct gr_area *area, uint64_t start, bool whole, uint64_t *looked)
{
	while (start < area->end) {
		uint64_t first = start & ~(GROUP_BYTES - 1), end = first + GROUP_BYTES;
		end = end < area->end ? end : area->end;
		unsigned count = (end - start) / GR_PAGE, shift = (start - first) / GR_PAGE;
		uint64_t present = gr_areas_present(area, start, count);
		if (!present) {
			start = gr_areas_skip(area, end);
			continue;
		}
		struct group *group = group_at(first);
		if (!group)
			return false;
		uint64_t same = whole ? 0 : gr_areas_unwritten(area, start, count) << shift & group->known & ~group->spans;
		kept->covered[group - kept->group] |= present << shift;
		for (unsigned i = shift; i < shift + count; i++) {
			uint64_t bit = 1ULL << i, page = first + i * (uint64_t)GR_PAGE;
			if (!(present << shift & bit)) // gone, and will be seen to below
				continue;
			bool spans = gr_mask_spans(page);
			if (same & bit && !spans && !was_changed(page))
				continue;
			set(group, i, gr_digest_page(page, area->file));
			if (!(group->known & bit))
				group->known |= bit;
			if (!(group->spans & bit) != !spans)
				group->spans ^= bit;
			++*looked;
		}
		start = end;
	}
	return true;
}

static void forget_what_is_gone(void)
{
	for (uint32_t g = 0; g < groups; g++) {
		struct group *group = &kept->group[g];
		uint64_t gone = group->known & ~kept->covered[g];
		if (!gone)
			continue;
		for (unsigned i = 0; i < GR_DIGEST_PAGES; i++)
			if (gone >> i & 1)
				set(group, i, 0);
		group->known &= ~gone;
		group->spans &= ~gone;
	}
}

// ---------------------------------------------------------------- a look
static void map_once(struct gr_thread *self)
{
	if (mapped)
		return;
	long ret = GR_RAW(SYS_mmap, KEPT_ADDR, FREE_BYTES, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
	if (ret != (long)KEPT_ADDR)
		gr_panic(self, GR_PANIC_REFUSED, "a check of the state, because there is no memory for it (error %d)", -ret, 0);
	mapped = true;
}

static void look(struct gr_thread *self, bool whole, struct gr_look *ret)
{
	uint64_t last = 0, ranges = GR_HASH_SEED, begin = 0;
	struct gr_area area;
	map_once(self);
	whole |= !on || stretches > STRETCHES;
	ret->looked = 0;
	GR_RAW(SYS_madvise, kept->covered, sizeof kept->covered, MADV_DONTNEED);
	gr_areas_read(self);
	gr_mask_begin(self, gr_thread_stands(self)->rsp - GR_RED_ZONE);
	for (const char *at = NULL; gr_areas_next(&at, &area);) {
		uint64_t start = gr_mask_start(&area);
		if (start != last) { // areas in a row may be one elsewhere
			ranges = gr_hash_word(gr_hash_word(ranges, begin), last);
			begin = start;
		}
		last = area.end;
		if (!look_at(&area, start, whole, &ret->looked))
			gr_panic(self, GR_PANIC_REFUSED, "a check of the state of more than %u pieces of 256 KiB\nuse it without check", GROUPS, 0);
	}
	gr_areas_done();
	forget_what_is_gone();
	on = current = true;
	stretches = 0;
	ret->ranges = gr_hash_word(gr_hash_word(ranges, begin), last);
	ret->memory = memory;
	ret->registers = gr_digest_registers(self, &ret->threads);
}

void gr_kept_check(struct gr_thread *self)
{
	look(self, gr_slot->look.whole, &gr_slot->look);
	gr_slot_announce(gr_slot->state);
}

void gr_kept_freeze(struct gr_thread *self)
{
	struct gr_look unused;
	if (on && !current)
		look(self, gr_slot->look.whole, &unused);
}
