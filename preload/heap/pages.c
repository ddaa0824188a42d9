// Runs of pages inside the regions: taken from free runs or from the untouched end, given back and merged.
// Runs in: application threads.
// May call: core, the pool.
// Owns: the page descriptors at the start of each region, the bins of a heap.
#include <sys/mman.h>

#include "../core/raw.h"
#include "heap.h"

#define TABLE_PAGES (GR_HEAP_REGION / GR_PAGE * sizeof(struct gr_page) / GR_PAGE)
#define LOOKS 8             // at free runs that are long enough
#define STEP_PAGES 16       // the untouched end is used this much at a time
#define KEEP_PAGES 32       // free pages a heap keeps; beyond that it gives all of them to the pool ...
#define RETURN_PAGES 4096   // ... and runs of this length to the kernel

static unsigned bin_of(size_t pages)
{
	unsigned log = 63 - __builtin_clzll(pages);
	return log < GR_BINS ? log : GR_BINS - 1;
}

// ---------------------------------------------------------------- free runs
void gr_run_link(struct gr_free *bins, uint16_t owner, void *p, size_t pages)
{
	struct gr_free *run = p, *bin = &bins[bin_of(pages)];
	struct gr_page *page = gr_page_of(p);
	page[0] = page[pages - 1] = (struct gr_page){GR_PAGE_FREE, 0, owner, pages};
	run->next = bin->next;
	run->prev = bin;
	if (bin->next)
		bin->next->prev = run;
	bin->next = run;
}

size_t gr_run_unlink(struct gr_free *run)
{
	struct gr_page *page = gr_page_of(run);
	size_t pages = page->pages;
	run->prev->next = run->next;
	if (run->next)
		run->next->prev = run->prev;
	page[0] = page[pages - 1] = (struct gr_page){0};
	return pages;
}

// The shortest of the first few that are long enough: what is left of a long one is of less use.
struct gr_free *gr_run_fitting(struct gr_free *bins, size_t pages)
{
	struct gr_free *best = NULL;
	for (unsigned bin = bin_of(pages), looks = 0; bin < GR_BINS && !best; bin++)
		for (struct gr_free *run = bins[bin].next; run && looks < LOOKS; run = run->next) {
			size_t length = gr_page_of(run)->pages;
			if (length < pages)
				continue;
			if (!best || length < gr_page_of(best)->pages)
				best = run;
			looks++;
		}
	return best;
}

static bool is_owned(const struct gr_page *page, uint16_t owner)
{
	const struct gr_page seen = *(const volatile struct gr_page *)page;
	return seen.kind == GR_PAGE_FREE && seen.owner == owner;
}

size_t gr_run_merged(uint16_t owner, void **start, size_t pages)
{
	char *end = (char *)*start + pages * GR_PAGE;
	struct gr_page *page = gr_page_of(*start);
	if ((uint64_t)end & (GR_HEAP_REGION - 1) && is_owned(page + pages, owner))
		pages += gr_run_unlink((struct gr_free *)end);
	if (is_owned(page - 1, owner)) {
		*start = (char *)*start - (uint64_t)page[-1].pages * GR_PAGE;
		pages += gr_run_unlink(*start);
	}
	return pages;
}

static void link_run(struct gr_heap *heap, void *p, size_t pages)
{
	gr_run_link(heap->bin, heap->number + 1, p, pages);
	heap->free_pages += pages;
}

static void *use(struct gr_heap *heap, void *p, size_t have, size_t pages)
{
	struct gr_page *page = gr_page_of(p);
	if (have > pages)
		link_run(heap, (char *)p + pages * GR_PAGE, have - pages);
	page[pages - 1] = (struct gr_page){0};
	page[0] = (struct gr_page){GR_PAGE_LARGE, 0, 0, pages};
	return p;
}

// All of them, because only side by side in the pool they become long ones again.
// INVARIANT(whole-before-exchange): see malloc.c.
static void put_all(struct gr_heap *heap)
{
	struct gr_free *all = NULL, *run, *next;
	for (unsigned bin = 0; bin < GR_BINS; bin++)
		for (run = heap->bin[bin].next; run; run = next) {
			size_t pages = gr_run_unlink(run);
			next = run->next;
			gr_page_of(run)->pages = pages;
			run->next = all;
			all = run;
		}
	heap->free_pages = 0;
	struct gr_exchange exchange = {.kind = GR_EXCHANGE_PUT_PAGES, .p = all};
	gr_heap_exchange(&exchange);
	for (run = exchange.p; run; run = next) { // nobody took them
		next = run->next;
		link_run(heap, run, gr_page_of(run)->pages);
	}
}

// ---------------------------------------------------------------- taking
static void *take_at_top(struct gr_heap *heap, size_t pages, bool *ret_zero)
{
	size_t size = pages * GR_PAGE;
	uint8_t *region_end = (uint8_t *)(((uint64_t)heap->top & ~(uint64_t)(GR_HEAP_REGION - 1)) + GR_HEAP_REGION);
	if ((size_t)(heap->end - heap->top) < size) {
		size_t step = pages > STEP_PAGES ? pages : STEP_PAGES;
		struct gr_exchange exchange = {.kind = GR_EXCHANGE_GET_PAGES, .count = pages};
		if (heap->free_pages > KEEP_PAGES) // too short, all of them
			put_all(heap);
		gr_heap_exchange(&exchange);
		if (exchange.p) {
			*ret_zero = false;
			return use(heap, exchange.p, exchange.count, pages);
		}
		if ((size_t)(region_end - heap->top) < step * GR_PAGE || !gr_heap_open(heap, heap->top + step * GR_PAGE))
			return NULL;
		heap->end = heap->top + step * GR_PAGE;
	}
	void *p = heap->top;
	heap->top += size;
	*ret_zero = (uint8_t *)p >= heap->clean;
	if (heap->clean < heap->top)
		heap->clean = heap->top;
	return use(heap, p, pages, pages);
}

void *gr_pages_take(struct gr_heap *heap, size_t pages, size_t align_pages, bool *ret_zero)
{
	size_t want = pages + align_pages - 1;
	if (want < pages || want > GR_HEAP_REGION / GR_PAGE - TABLE_PAGES)
		return NULL;
	struct gr_free *run = gr_run_fitting(heap->bin, want);
	*ret_zero = false;
	if (run)
		heap->free_pages -= gr_page_of(run)->pages;
	char *p = run ? use(heap, run, gr_run_unlink(run), want) : take_at_top(heap, want, ret_zero);
	if (!p || align_pages == 1)
		return p;
	uint64_t align = align_pages * GR_PAGE;
	char *at = (char *)(((uint64_t)p + align - 1) & ~(align - 1));
	size_t before = (at - p) / GR_PAGE, behind = want - before - pages;
	*gr_page_of(at) = (struct gr_page){GR_PAGE_LARGE, 0, 0, pages};
	if (before)
		gr_pages_give(heap, p, before);
	if (behind)
		gr_pages_give(heap, at + pages * GR_PAGE, behind);
	return at;
}

// ---------------------------------------------------------------- giving back
void gr_pages_give(struct gr_heap *heap, void *start, size_t pages)
{
	struct gr_page *page = gr_page_of(start);
	if (pages >= RETURN_PAGES)
		GR_RAW(SYS_madvise, start, pages * GR_PAGE, MADV_DONTNEED);
	page[0] = page[pages - 1] = (struct gr_page){0};
	size_t merged = gr_run_merged(heap->number + 1, &start, pages);
	heap->free_pages -= merged - pages;
	pages = merged;
	if ((uint8_t *)start + pages * GR_PAGE == heap->top) {
		heap->top = start;
		return;
	}
	link_run(heap, start, pages);
	if (heap->free_pages > KEEP_PAGES)
		put_all(heap);
}
