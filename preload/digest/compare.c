// Where two digests differ; see compare.h.
// Runs in: a replay whose digest is not the demo's.
// May call: core.
// Owns: the words of the report.
#include "compare.h"

#include <stdbool.h>

#include "../abi.h"
#include "../core/nolibc.h"
#include "../core/thread.h"
#include "areas.h"
#include "digest.h"
#include "rename.h"

// ---------------------------------------------------------------- walking a digest
struct walk {
	const uint8_t *pos, *end;
	uint32_t ranges, groups;
	struct gr_digest_range range; // the newest
	struct gr_digest_group group; // bits still to come
	uint64_t page;                // the newest page that is not zero, ~0 behind the last
	uint32_t hash;
};

static bool get(struct walk *w, void *ret, size_t size)
{
	if ((size_t)(w->end - w->pos) < size)
		return false;
	memcpy(ret, w->pos, size);
	w->pos += size;
	return true;
}

// `regs`: those of head->threads threads.
static bool begin(struct walk *w, const uint8_t *digest, size_t len, struct gr_digest *head, const uint8_t **regs)
{
	*w = (struct walk){.pos = digest, .end = digest + len};
	if (!get(w, head, sizeof *head) || head->threads > (size_t)(w->end - w->pos) / sizeof(struct gr_regs))
		return false;
	*regs = w->pos;
	w->pos += head->threads * sizeof(struct gr_regs);
	w->ranges = head->ranges;
	return true;
}

static bool next_range(struct walk *w)
{
	if (!w->ranges || !get(w, &w->range, sizeof w->range))
		return false;
	w->ranges--;
	w->groups = w->range.groups;
	return true;
}

static void next_page(struct walk *w)
{
	w->page = ~0ULL;
	while (!w->group.pages) {
		while (!w->groups)
			if (!next_range(w))
				return;
		w->groups--;
		if (!get(w, &w->group, sizeof w->group))
			return;
	}
	unsigned bit = __builtin_ctzll(w->group.pages);
	w->group.pages &= w->group.pages - 1;
	if (get(w, &w->hash, sizeof w->hash))
		w->page = w->group.start + (uint64_t)bit * GR_PAGE;
}

// ---------------------------------------------------------------- words
static void name_of(uint64_t addr, char *ret, size_t room)
{
	struct gr_area area;
	gr_format(ret, room, "unnamed memory");
	for (const char *at = NULL; gr_areas_next(&at, &area);)
		if (addr >= area.start && addr < area.end && area.name_len && area.name_len < room) {
			memcpy(ret, area.name, area.name_len);
			ret[area.name_len] = 0;
		}
}

// Of the thread whose descriptor this is, which is the one that lives.
static void whose(const struct gr_regs *regs, uint32_t threads, char *ret, size_t room)
{
	const struct gr_thread *t = threads > 1 ? gr_thread_by_descriptor(regs->fs_base) : NULL;
	*ret = 0;
	if (t)
		gr_format(ret, room, " of thread %u", (uint64_t)t->pub.index);
}

static bool registers(const struct gr_regs *demo, const struct gr_regs *here, uint32_t threads, char *text, size_t room)
{
	static const char names[][8] = {
		"rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
		"rip", "eflags", "fs_base", "gs_base",
	};
	_Static_assert(sizeof names / sizeof *names == sizeof *demo / 8, "one name for each register");
	const uint64_t *a = (const uint64_t *)demo, *b = (const uint64_t *)here;
	char thread[32];
	whose(here, threads, thread, sizeof thread);
	for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
		if (a[i] != b[i]) {
			gr_format(text, room, "the state differs: %s%s is 0x%x, in the recording it was 0x%x", names[i], thread, b[i], a[i]);
			return true;
		}
	return false;
}

// A demo's registers lie at any address.
static bool all_registers(const uint8_t *demo, const uint8_t *here, uint32_t threads, char *text, size_t room)
{
	struct gr_regs a, b;
	for (uint32_t i = 0; i < threads; i++) {
		memcpy(&a, demo + i * sizeof a, sizeof a);
		memcpy(&b, here + i * sizeof b, sizeof b);
		if (registers(&a, &b, threads, text, room))
			return true;
	}
	return false;
}

static void rename_registers(const uint8_t *demo, uint8_t *here, uint32_t threads)
{
	for (size_t at = 0; at < threads * sizeof(struct gr_regs); at += sizeof(uint32_t)) {
		uint32_t word, wanted;
		memcpy(&word, here + at, sizeof word);
		memcpy(&wanted, demo + at, sizeof wanted);
		if (word != wanted && gr_rename_word(word, wanted))
			memcpy(here + at, &wanted, sizeof wanted);
	}
}

void gr_digest_rename(const uint8_t *demo, size_t demo_len, uint8_t *here, size_t here_len)
{
	struct walk a, b;
	struct gr_digest head_a, head_b;
	const uint8_t *regs_a, *regs_b;
	if (!begin(&a, demo, demo_len, &head_a, &regs_a) || !begin(&b, here, here_len, &head_b, &regs_b) || head_a.threads != head_b.threads)
		return;
	rename_registers(regs_a, here + (regs_b - here), head_b.threads);
	next_page(&a);
	next_page(&b);
	while (a.page != ~0ULL && b.page != ~0ULL) {
		uint64_t at = a.page < b.page ? a.page : b.page;
		if (a.page == b.page && a.hash != b.hash && gr_digest_page_may_be(at, a.hash))
			memcpy(here + (b.pos - here) - sizeof a.hash, &a.hash, sizeof a.hash);
		if (a.page == at)
			next_page(&a);
		if (b.page == at)
			next_page(&b);
	}
}

static uint64_t extents(struct walk a, struct walk b)
{
	for (;;) {
		bool more_a = next_range(&a), more_b = next_range(&b);
		if (!more_a && !more_b)
			return 0;
		if (!more_a || !more_b)
			return more_a ? a.range.start : b.range.start;
		if (a.range.start != b.range.start)
			return a.range.start < b.range.start ? a.range.start : b.range.start;
		if (a.range.end != b.range.end)
			return a.range.end < b.range.end ? a.range.end : b.range.end;
		// Over the groups to the next range.
		struct walk *both[] = {&a, &b};
		for (unsigned i = 0; i < 2; i++)
			for (uint32_t n = both[i]->groups; n; n--) {
				struct gr_digest_group group;
				if (!get(both[i], &group, sizeof group))
					return both[i]->range.start;
				size_t checks = 4 * (size_t)__builtin_popcountll(group.pages);
				if ((size_t)(both[i]->end - both[i]->pos) < checks)
					return group.start;
				both[i]->pos += checks;
			}
	}
}

uint64_t gr_digest_difference(const uint8_t *demo, size_t demo_len, const uint8_t *here, size_t here_len, char *text,
			      size_t room)
{
	struct walk a, b;
	struct gr_digest head_a, head_b;
	const uint8_t *regs_a, *regs_b;
	char name[256];
	if (!begin(&a, demo, demo_len, &head_a, &regs_a) || !begin(&b, here, here_len, &head_b, &regs_b)) {
		gr_format(text, room, "the demo's digest is damaged");
		return 0;
	}
	if (head_a.threads != head_b.threads) {
		gr_format(text, room, "the state differs: %u threads live, in the recording %u did", (uint64_t)head_b.threads,
			  (uint64_t)head_a.threads);
		return 0;
	}
	if (all_registers(regs_a, regs_b, head_a.threads, text, room))
		return 0;
	if (head_a.vectors != head_b.vectors) {
		gr_format(text, room, "the state differs: vector registers are not the recording's");
		return 0;
	}
	uint64_t where = extents(a, b);
	if (where) {
		name_of(where, name, sizeof name);
		gr_format(text, room, "the state differs: at 0x%x (%s) writable memory begins or ends where in the recording it did not",
			  where, name);
		return where;
	}
	uint64_t differing = 0;
	next_page(&a);
	next_page(&b);
	while (a.page != ~0ULL || b.page != ~0ULL) {
		uint64_t at = a.page < b.page ? a.page : b.page;
		if (a.page != b.page || a.hash != b.hash) {
			where = where ? where : at;
			differing++;
		}
		if (a.page == at)
			next_page(&a);
		if (b.page == at)
			next_page(&b);
	}
	name_of(where, name, sizeof name);
	gr_format(text, room, "the state differs in %u pages of memory, the first at 0x%x (%s)", differing, where, name);
	return where;
}
