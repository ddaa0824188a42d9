// The program's heap: one for each thread, at addresses that follow from the thread's own calls alone.
// Runs in: application threads, on the program's stack; the exchange with the pool as an operation.
// May call: core; the kernel, to give memory back.
// Owns: malloc and its relatives, the regions from GR_HEAP_ADDR on, the pool.
//
// A thread allocates from its own heap and frees into its own heap, whoever allocated the block. So what a thread is
// given depends on its own calls only, and nothing has to be logged for it. Memory wanders back through the pool; each
// exchange with it is an operation, and *when* a heap exchanges again depends on that heap alone.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../abi.h"
#include "../core/thread.h"

#define GR_HEAP_ADDR 0x2a0000000000
#define GR_HEAP_REGION 0x800000000 // 32 GiB of addresses for each heap
#define GR_HEAPS 1280
#define GR_HEAP_ROOM "raise the limits (`ulimit -v unlimited`, `ulimit -d unlimited`): each thread gets 32 GiB of addresses, and takes memory as it uses it"

// ---------------------------------------------------------------- sizes of small blocks
#define GR_SMALL_MAX 8192
#define GR_CLASSES 32   // 16 .. 128 by 16, then four for each doubling: 160, 192, 224, 256, 320 ... 8192
#define GR_SPAN_PAGES 4 // small blocks are cut from spans of this many pages

static inline unsigned gr_class_of(size_t size)
{
	if (size <= 128)
		return size ? (unsigned)(size - 1) / 16 : 0;
	unsigned log = 63 - __builtin_clzll(size - 1); // 7 for 129 .. 256
	return 8 + (log - 7) * 4 + (((size - 1) >> (log - 2)) & 3);
}

static inline size_t gr_class_size(unsigned cls)
{
	if (cls < 8)
		return (cls + 1) * 16;
	unsigned log = 7 + (cls - 8) / 4;
	return ((size_t)1 << log) + (((cls - 8) % 4) + 1) * ((size_t)1 << (log - 2));
}

// ---------------------------------------------------------------- pages
// One descriptor for each page of a region. A free run's first and last page tell its length and its owner, so that an owner
// finds free neighbours; nobody else may act on them.
// INVARIANT(owner-only): a descriptor that names a heap as its owner is changed by that heap's thread only. A neighbour may
// read it at any time, and whatever it reads while it is being changed, it is not itself.
enum gr_page_kind { GR_PAGE_NONE, GR_PAGE_SMALL, GR_PAGE_LARGE, GR_PAGE_FREE };

struct gr_page {
	uint8_t kind;
	uint8_t cls;    // SMALL: class of the blocks
	uint16_t owner; // FREE: heap plus 1, or the pool
	uint32_t pages; // LARGE, FREE: length of the run, in its first page (FREE: also in its last)
};

struct gr_block { struct gr_block *next; };
struct gr_batch { struct gr_block *next; struct gr_batch *below; }; // its first block; `below` leads to another batch
struct gr_free { struct gr_free *next, *prev; }; // in the first bytes of a free run

#define GR_BINS 24 // free runs by the logarithm of their length in pages

struct gr_shelf {
	struct gr_block *free;
	uint32_t count, most; // at so many the pool is offered some
};

struct gr_heap {
	struct gr_shelf shelf[GR_CLASSES];
	uint8_t *fresh[GR_CLASSES]; // the rest of a span that was never cut
	uint8_t *fresh_end[GR_CLASSES];
	struct gr_free bin[GR_BINS];
	uint64_t free_pages;
	uint8_t *top, *end;         // addresses of the own region to go on with; beyond `end` the pool is asked first
	uint8_t *clean;             // from here on nothing was ever used, so all is zero
	uint16_t number;
	bool ready;
};

// ---------------------------------------------------------------- malloc.c
// Looks for another allocator behind this one. In the constructor, before any other.
void gr_heap_init(void);

// ---------------------------------------------------------------- heaps.c
// The heap of all threads that have none, locked; NULL, and not locked, where there is no room for it.
struct gr_heap *gr_heap_share(void);
void gr_heap_unshare(void);

// The calling thread's heap, or that.
static inline struct gr_heap *gr_heap_enter(bool *ret_shared)
{
	struct gr_thread *self = gr_self;
	*ret_shared = !self || !self->heap;
	return __builtin_expect(*ret_shared, 0) ? gr_heap_share() : self->heap;
}

static inline void gr_heap_leave(bool shared)
{
	if (__builtin_expect(shared, 0))
		gr_heap_unshare();
}

// A heap for a thread that begins: one that an ended thread left, or a new one. `number` as it was recorded, -1: choose.
struct gr_heap *gr_heap_take(int number);
void gr_heap_give(struct gr_heap *heap);

// Makes the addresses below `end` memory; false where a limit is in the way. Around it `gr_heap_on_open` is called, if it is set: first
// with `done` false.
bool gr_heap_open(const struct gr_heap *heap, const uint8_t *end);
extern void (*gr_heap_on_open)(bool done);

// Calls `each` for what was ever used of the regions in [from, to): page descriptors, the heap itself, pages.
void gr_heap_ranges(uint64_t from, uint64_t to, void (*each)(void *arg, uint64_t from, uint64_t to), void *arg);

// ---------------------------------------------------------------- pages.c
static inline struct gr_page *gr_page_of(const void *p)
{
	uint64_t addr = (uint64_t)p;
	struct gr_page *table = (struct gr_page *)(addr & ~(uint64_t)(GR_HEAP_REGION - 1));
	return table + (addr & (GR_HEAP_REGION - 1)) / GR_PAGE;
}

// A run of pages; *ret_zero if they were never used. NULL when the region is used up.
void *gr_pages_take(struct gr_heap *heap, size_t pages, size_t align_pages, bool *ret_zero);
void gr_pages_give(struct gr_heap *heap, void *p, size_t pages);

// Free runs in bins, of a heap (its number plus 1) or of the pool. gr_run_merged takes the owner's neighbours out of their
// bins; the result is the length of all.
#define GR_POOL 0xffff
void gr_run_link(struct gr_free *bins, uint16_t owner, void *p, size_t pages);
size_t gr_run_unlink(struct gr_free *run);
struct gr_free *gr_run_fitting(struct gr_free *bins, size_t pages);
size_t gr_run_merged(uint16_t owner, void **start, size_t pages);

// ---------------------------------------------------------------- pool.c
// What an exchange is about, and what came of it.
enum gr_exchange_kind { GR_EXCHANGE_GET_BLOCKS, GR_EXCHANGE_PUT_BLOCKS, GR_EXCHANGE_GET_PAGES, GR_EXCHANGE_PUT_PAGES };

struct gr_exchange {
	uint32_t kind;
	uint32_t cls;
	void *p;      // PUT: first batch, or first run; GET: the batch or run, NULL for none
	size_t count; // GET: pages
};

// With an operation around it where the engine is on.
void gr_heap_exchange(struct gr_exchange *exchange);
