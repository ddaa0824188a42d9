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

static uint32_t shared_lock, list_lock;
static enum { NEVER_MADE, TAKEN, LEFT } state[GR_HEAPS];

// The heap itself stands behind its region's table of pages.
static struct gr_heap *heap_at(unsigned number)
{
	return (struct gr_heap *)(GR_HEAP_ADDR + number * (uint64_t)GR_HEAP_REGION + TABLE);
}

static struct gr_heap *make(unsigned number)
{
	struct gr_heap *heap = heap_at(number);
	uint64_t region = (uint64_t)heap - TABLE;
	if (GR_RAW(SYS_mmap, region, GR_HEAP_REGION, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0) != (long)region)
		return NULL;
	heap->number = number;
	heap->top = heap->end = heap->clean = (uint8_t *)(((uint64_t)(heap + 1) + GR_PAGE - 1) & ~(uint64_t)(GR_PAGE - 1));
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

void gr_heap_ranges(uint64_t from, uint64_t to, void (*each)(void *arg, uint64_t from, uint64_t to), void *arg)
{
	for (unsigned number = (from - GR_HEAP_ADDR) / GR_HEAP_REGION; number < GR_HEAPS; number++) {
		const struct gr_heap *heap = heap_at(number);
		uint64_t region = (uint64_t)heap - TABLE;
		if (region >= to)
			return;
		uint64_t pages = ((uint64_t)heap->clean - region) / GR_PAGE;
		each(arg, region, region + pages * sizeof(struct gr_page));
		each(arg, (uint64_t)heap, (uint64_t)heap->clean);
	}
}
