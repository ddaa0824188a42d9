// Stubs: the short pieces of code between a patched site and the door; see patch.h.
// Runs in: application threads, on the engine's stack; gr_stub_init in the constructor.
// May call: raw system calls.
// Owns: the section gr_stubs and the pages near the program's text, which ones of their bytes are in use.
//
//	head:   mov $nr, %eax            backward sites only
//	        lea tail(%rip), %rcx
//	        jmp *door(%rip)
//	native: syscall                  in threads that the engine is off for: a fork's child
//	        jmp moved
//	        .quad behind the call    what the kernel would have left in rcx
//	tail:   lea behind(%rip), %rcx
//	moved:  the instructions that the jump replaced
//	        jmp back
#include <fcntl.h>
#include <sys/mman.h>

#include "../core/nolibc.h"
#include "../core/page.h"
#include "../core/raw.h"
#include "patch.h"

#define NEAR_SIZE 0x10000
#define LINE 256
#define GRANULE 16
#define STUB_MAX 96
#define FIRST_GRANULES 2 // the address of the door

struct zone {
	uint64_t start, size;
	uint8_t used[GR_STUBS_SIZE / GRANULE / 8];
};

extern const char __start_gr_stubs[] __attribute__((visibility("hidden")));
void gr_door_stub(void);

static struct zone zones[2];

_Static_assert(NEAR_SIZE <= GR_STUBS_SIZE, "one bitmap fits both");

// /proc/self/mem leaves the protection and the list of mappings as they are.
long gr_text_open(void)
{
	return GR_RAW(SYS_open, "/proc/self/mem", O_RDWR | O_CLOEXEC, 0);
}

// The kernel changes the protection of the vDSO as a whole or not at all.
static uint64_t whole_start, whole_end;

void gr_text_whole(uint64_t start, uint64_t end)
{
	whole_start = start;
	whole_end = end;
}

// A replay is fenced in and has no such file. There, who executes what is written stands still.
bool gr_text_put(long fd, uint64_t addr, const void *bytes, uint64_t length, int protection)
{
	if (!GR_IS_ERR(fd))
		return GR_RAW(SYS_pwrite64, fd, bytes, length, addr) == (long)length;
	uint64_t first = addr & ~4095ULL, size = ((addr + length + 4095) & ~4095ULL) - first;
	if (addr >= whole_start && addr < whole_end)
		first = whole_start, size = whole_end - whole_start;
	if (GR_RAW(SYS_mprotect, first, size, protection | PROT_WRITE))
		return false;
	memcpy((void *)addr, bytes, length);
	return GR_RAW(SYS_mprotect, first, size, protection) == 0;
}

void gr_text_close(long fd)
{
	if (!GR_IS_ERR(fd))
		GR_RAW(SYS_close, fd);
}

bool gr_text_write(uint64_t addr, const void *bytes, uint64_t length, int protection)
{
	long fd = gr_text_open();
	bool done = gr_text_put(fd, addr, bytes, length, protection);
	gr_text_close(fd);
	return done;
}

// ---------------------------------------------------------------- room
static bool is_used(const struct zone *zone, uint64_t granule)
{
	return zone->used[granule / 8] >> granule % 8 & 1;
}

static bool within_reach(uint64_t from, uint64_t to)
{
	int64_t distance = (int64_t)(to - from);
	return distance > -0x7ff00000 && distance < 0x7ff00000;
}

// INVARIANT(one-byte-to-switch): the low byte of the jump's distance is the byte that stands there already, so that the
// last write, which makes the jump, is of one byte.
static uint64_t take(struct zone *zone, uint64_t jump, uint8_t low, uint64_t length)
{
	uint64_t phase = (jump + 5 + low - zone->start) % LINE;
	for (uint64_t at = phase; at + length <= zone->size; at += LINE) {
		uint64_t first = at / GRANULE, last = (at + length - 1) / GRANULE, i;
		for (i = first; i <= last && !is_used(zone, i); i++)
			;
		if (i <= last)
			continue;
		for (i = first; i <= last; i++)
			zone->used[i / 8] |= 1u << i % 8;
		return zone->start + at;
	}
	return 0;
}

static bool open_zone(struct zone *zone, uint64_t start, uint64_t size)
{
	const uint64_t door = (uint64_t)gr_door_stub;
	zone->start = start;
	for (unsigned i = 0; i < FIRST_GRANULES; i++)
		zone->used[i / 8] |= 1u << i % 8;
	if (gr_text_write(start, &door, sizeof door, GR_TEXT))
		zone->size = size;
	return zone->size != 0;
}

// The engine lies among the libraries, within reach of them all and of the vDSO; the program's own text does not always.
// INVARIANT(same-place): the second zone is where it is because of the program's address alone, in recording and replay.
void gr_stub_init(uint64_t program)
{
	uint64_t near_start = (program & ~0xfffffULL) - 0x100000;
	open_zone(&zones[0], (uint64_t)__start_gr_stubs, GR_STUBS_SIZE);
	if (!program || program < 0x200000 || within_reach((uint64_t)__start_gr_stubs, program))
		return;
	long ret = GR_RAW(SYS_mmap, near_start, NEAR_SIZE, PROT_READ | PROT_EXEC,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
	if (ret != (long)near_start)
		return;
	gr_outpost.start = near_start;
	gr_outpost.end = near_start + NEAR_SIZE;
	open_zone(&zones[1], near_start, NEAR_SIZE);
}

// ---------------------------------------------------------------- code
struct writer { uint8_t code[STUB_MAX]; uint64_t at, length; };

static void put(struct writer *w, const void *bytes, uint64_t n)
{
	memcpy(w->code + w->length, bytes, n);
	w->length += n;
}

// An opcode and the distance to `to` behind it.
static void put_far(struct writer *w, const char *opcode, uint64_t n, uint64_t to)
{
	put(w, opcode, n);
	int32_t distance = (int32_t)(to - (w->at + w->length + 4));
	put(w, &distance, 4);
}

static void emit(struct writer *w, const struct gr_site *site, const struct gr_plan *plan, uint64_t door, uint64_t *ret_tail)
{
	uint64_t behind = site->addr + 2;
	w->length = 0;
	if (plan->backward) {
		put(w, "\xb8", 1);
		put(w, &plan->nr, 4);
	}
	uint64_t tail = w->at + w->length + 7 + 6 + 4 + 8;
	put_far(w, "\x48\x8d\x0d", 3, tail);
	put_far(w, "\xff\x25", 2, door);
	put(w, "\x0f\x05\xeb\x0f", 4); // GR_STUB_NATIVE bytes in front of the tail
	put(w, &behind, 8);
	put_far(w, "\x48\x8d\x0d", 3, behind);
	uint64_t moved = w->length;
	put(w, plan->moved, plan->moved_length);
	if (!plan->backward && plan->jcc_at != 0xff) {
		uint64_t end = w->length;
		w->length = moved + plan->jcc_at;
		put_far(w, (const char *)plan->moved + plan->jcc_at, 2, plan->jcc_target);
		w->length = end;
	}
	uint64_t back = plan->backward ? behind : plan->back;
	if (back)
		put_far(w, "\xe9", 1, back);
	*ret_tail = tail;
}

uint64_t gr_stub_moved(const void *moved, uint64_t length, uint64_t back)
{
	struct writer w = {.length = 0};
	if (!zones[0].size || !within_reach(zones[0].start, back))
		return 0;
	w.at = take(&zones[0], zones[0].start, 0, length + 5);
	put(&w, moved, length);
	put_far(&w, "\xe9", 1, back);
	return w.at && gr_text_write(w.at, w.code, w.length, GR_TEXT) ? w.at : 0;
}

bool gr_stub_make(struct gr_site *site, const struct gr_plan *plan)
{
	struct writer w;
	uint8_t low = plan->backward ? plan->nr & 0xff : 0x05;
	site->backward = plan->backward;
	site->jump = plan->backward ? site->addr - 5 : site->addr;
	for (unsigned i = 0; i < sizeof zones / sizeof *zones; i++) {
		struct zone *zone = &zones[i];
		if (!zone->size || !within_reach(zone->start, site->jump) ||
		    (plan->jcc_target && !within_reach(zone->start, plan->jcc_target)))
			continue;
		w.at = 0; // only to learn the length
		emit(&w, site, plan, 0, &site->tail);
		w.at = take(zone, site->jump, low, w.length);
		if (!w.at)
			continue;
		emit(&w, site, plan, zone->start, &site->tail);
		if (!gr_text_write(w.at, w.code, w.length, GR_TEXT))
			return false;
		int32_t distance = (int32_t)(w.at - (site->jump + 5));
		site->fresh[0] = 0xe9;
		memcpy(site->fresh + 1, &distance, 4);
		site->stub = w.at;
		return true;
	}
	return false;
}
