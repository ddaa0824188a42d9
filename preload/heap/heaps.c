// Which heap is whose: regions made, handed to threads, and handed on when a thread ends.
// Runs in: application threads; before the constructor and in children, all threads share one heap.
// May call: core.
// Owns: the regions' mappings, the list of heaps that ended threads left.
#include <linux/futex.h>
#include <sys/mman.h>

#include "../core/nolibc.h"
#include "../core/raw.h"
#include "../core/thread.h"
#include "heap.h"

#define SHARED (GR_HEAPS - 1) // of those who have none: before the constructor, and where the engine is off
#define TABLE (GR_HEAP_REGION / GR_PAGE * sizeof(struct gr_page))
#define OPEN_STEP 0x200000 // of a region
#define TABLE_STEP 0x10000 // of its table

static uint32_t shared_lock, list_lock;
static enum { NEVER_MADE, TAKEN, LEFT } state[GR_HEAPS];
static uint64_t opened[GR_HEAPS], table_opened[GR_HEAPS]; // up to where; not in the heap, whose bytes are of the program's state
void (*gr_heap_on_open)(bool done);

// The heap itself stands behind its region's table of pages.
static struct gr_heap *heap_at(unsigned number)
{
	return (struct gr_heap *)(GR_HEAP_ADDR + number * (uint64_t)GR_HEAP_REGION + TABLE);
}

static bool open_to(uint64_t *from, uint64_t to, uint64_t step)
{
	to = (to + step - 1) & ~(step - 1);
	if (to <= *from)
		return true;
	if (GR_IS_ERR(GR_RAW(SYS_mprotect, *from, to - *from, PROT_READ | PROT_WRITE)))
		return false;
	*from = to;
	return true;
}

// INVARIANT(addresses-are-no-memory): what a heap has not come to cannot be touched. Else programs that go through their mappings
// or lock them, core files and limits of memory would take all of it for memory.
static bool open_up(unsigned number, uint64_t end)
{
	uint64_t region = (uint64_t)heap_at(number) - TABLE;
	uint64_t rows = (end - region + OPEN_STEP) / GR_PAGE + 1; // a neighbour of what is used is looked at, too
	uint64_t rows_end = rows * sizeof(struct gr_page) < TABLE ? region + rows * sizeof(struct gr_page) : region + TABLE;
	if (end <= opened[number])
		return true;
	if (gr_heap_on_open)
		gr_heap_on_open(false);
	bool done = open_to(&table_opened[number], rows_end, TABLE_STEP) && open_to(&opened[number], end, OPEN_STEP);
	if (gr_heap_on_open)
		gr_heap_on_open(true);
	return done;
}

bool gr_heap_open(const struct gr_heap *heap, const uint8_t *end)
{
	return open_up(heap->number, (uint64_t)end);
}

static struct gr_heap *make(unsigned number)
{
	struct gr_heap *heap = heap_at(number);
	uint64_t region = (uint64_t)heap - TABLE, first = ((uint64_t)(heap + 1) + GR_PAGE - 1) & ~(uint64_t)(GR_PAGE - 1);
	if (GR_RAW(SYS_mmap, region, GR_HEAP_REGION, PROT_NONE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0) != (long)region)
		return NULL;
	opened[number] = (uint64_t)heap;
	table_opened[number] = region;
	if (!open_up(number, first)) {
		GR_RAW(SYS_munmap, region, GR_HEAP_REGION);
		return NULL;
	}
	heap->number = number;
	heap->top = heap->end = heap->clean = (uint8_t *)first;
	heap->ready = true;
	return heap;
}

struct gr_heap *gr_heap_share(void)
{
	static struct gr_heap *shared;
	gr_latch(&shared_lock);
	if (!shared)
		shared = make(SHARED);
	if (!shared)
		gr_unlatch(&shared_lock);
	return shared;
}

void gr_heap_unshare(void)
{
	gr_unlatch(&shared_lock);
}

// INVARIANT(heap-after-exit): a heap is listed behind the last operation of the thread that left it and taken in front of
// the first operation of the next one, so the order of operations keeps the two apart on replay as well.
struct gr_heap *gr_heap_take(int number)
{
	struct gr_heap *heap = NULL;
	gr_latch(&list_lock);
	for (int i = 0; number < 0 && i < SHARED; i++)
		if (state[i] != TAKEN) // heaps are made in the order of their numbers, so one that was left comes first
			number = i;
	if (number >= 0 && number < SHARED && state[number] != TAKEN)
		heap = state[number] == LEFT ? heap_at(number) : make(number);
	if (heap)
		state[number] = TAKEN;
	gr_unlatch(&list_lock);
	return heap;
}

void gr_heap_give(struct gr_heap *heap)
{
	gr_latch(&list_lock);
	state[heap->number] = LEFT;
	gr_unlatch(&list_lock);
}

static void clip(uint64_t from, uint64_t to, uint64_t start, uint64_t end, void (*each)(void *, uint64_t, uint64_t), void *arg)
{
	start = start < from ? from : start;
	end = end > to ? to : end;
	if (start < end)
		each(arg, start, end);
}

void gr_heap_ranges(uint64_t from, uint64_t to, void (*each)(void *arg, uint64_t from, uint64_t to), void *arg)
{
	for (unsigned number = (from - GR_HEAP_ADDR) / GR_HEAP_REGION; number < GR_HEAPS; number++) {
		const struct gr_heap *heap = heap_at(number);
		uint64_t region = (uint64_t)heap - TABLE;
		if (region >= to)
			return;
		uint64_t pages = ((uint64_t)heap->clean - region) / GR_PAGE;
		clip(from, to, region, region + pages * sizeof(struct gr_page), each, arg);
		clip(from, to, (uint64_t)heap, (uint64_t)heap->clean, each, arg);
	}
}
