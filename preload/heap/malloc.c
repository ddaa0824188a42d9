// malloc and its relatives, as the program and its libraries call them.
// Runs in: application threads, on the program's stack.
// May call: core, heap; __errno_location and abort of libc; dlsym and dladdr, only in gr_heap_init.
// Owns: the exported names.
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>

#include "../core/nolibc.h"
#include "heap.h"

#define EXPORT __attribute__((visibility("default")))

// Blocks that change hands with the pool at a time: about 8 KiB of them, no less than 2.
static uint32_t batch_of(unsigned cls)
{
	size_t n = 8192 / gr_class_size(cls);
	return n < 2 ? 2 : n;
}

// ---------------------------------------------------------------- small blocks
static __attribute__((noinline)) void *refill(struct gr_heap *heap, unsigned cls)
{
	struct gr_exchange exchange = {.kind = GR_EXCHANGE_GET_BLOCKS, .cls = cls};
	gr_heap_exchange(&exchange);
	struct gr_block *block = exchange.p;
	if (block) {
		heap->shelf[cls] = (struct gr_shelf){block->next, batch_of(cls) - 1, 2 * batch_of(cls)};
		return block;
	}
	bool zero;
	uint8_t *span = gr_pages_take(heap, GR_SPAN_PAGES, 1, &zero);
	if (!span)
		return NULL;
	struct gr_page *page = gr_page_of(span);
	for (unsigned i = 0; i < GR_SPAN_PAGES; i++)
		page[i] = (struct gr_page){GR_PAGE_SMALL, cls, 0, 0};
	size_t size = gr_class_size(cls);
	heap->fresh[cls] = span + size;
	heap->fresh_end[cls] = span + GR_SPAN_PAGES * GR_PAGE / size * size;
	return span;
}

static inline void *take_small(struct gr_heap *heap, unsigned cls)
{
	struct gr_block *block = heap->shelf[cls].free;
	if (__builtin_expect(block != NULL, 1)) {
		heap->shelf[cls].free = block->next;
		heap->shelf[cls].count--;
		return block;
	}
	uint8_t *fresh = heap->fresh[cls];
	if (fresh < heap->fresh_end[cls]) {
		heap->fresh[cls] = fresh + gr_class_size(cls);
		return fresh;
	}
	return refill(heap, cls);
}

static struct gr_block *last_of(struct gr_block *block, uint32_t n)
{
	while (--n)
		block = block->next;
	return block;
}

// Two at a time: who only frees keeps little then, and asks seldom. Where the pool takes nothing the list just grows; asking again
// only when there are as many more keeps that cheap.
// INVARIANT(whole-before-exchange): lists are whole whenever the pool is asked, because signals are delivered behind an
// operation and their handlers may come back here.
static __attribute__((noinline)) void put_batches(struct gr_heap *heap, unsigned cls)
{
	uint32_t n = batch_of(cls);
	struct gr_shelf *shelf = &heap->shelf[cls];
	if (!shelf->most) { // nothing was taken yet
		shelf->most = 2 * n;
		return;
	}
	struct gr_block *upper = shelf->free, *upper_last = last_of(upper, n);
	struct gr_block *lower = upper_last->next, *lower_last = last_of(lower, n);
	shelf->free = lower_last->next;
	shelf->count -= 2 * n;
	upper_last->next = lower_last->next = NULL;
	((struct gr_batch *)upper)->below = (struct gr_batch *)lower;
	((struct gr_batch *)lower)->below = NULL;
	struct gr_exchange exchange = {.kind = GR_EXCHANGE_PUT_BLOCKS, .cls = cls, .p = upper};
	gr_heap_exchange(&exchange);
	if (exchange.p) { // nobody took them
		lower_last->next = shelf->free;
		upper_last->next = lower;
		shelf->free = upper;
		shelf->count += 2 * n;
		shelf->most = shelf->count + 2 * n;
	}
}

static inline void give_small(struct gr_heap *heap, void *p, unsigned cls)
{
	struct gr_block *block = p;
	struct gr_shelf *shelf = &heap->shelf[cls];
	block->next = shelf->free;
	shelf->free = block;
	if (__builtin_expect(++shelf->count >= shelf->most, 0))
		put_batches(heap, cls);
}

// ---------------------------------------------------------------- both
static inline __attribute__((always_inline)) void *take(size_t size, size_t align, bool *ret_zero)
{
	bool shared;
	void *p;
	*ret_zero = false;
	if (size > PTRDIFF_MAX || align > GR_HEAP_REGION / 2) {
		errno = ENOMEM;
		return NULL;
	}
	struct gr_heap *heap = gr_heap_enter(&shared);
	if (!heap) {
		errno = ENOMEM;
		return NULL;
	}
	unsigned cls = size <= GR_SMALL_MAX ? gr_class_of(size) : GR_CLASSES;
	// Blocks lie at multiples of their size from an aligned span.
	while (cls < GR_CLASSES && align > 16 && gr_class_size(cls) % align)
		cls++;
	if (cls < GR_CLASSES && align <= GR_PAGE)
		p = take_small(heap, cls);
	else
		p = gr_pages_take(heap, (size + GR_PAGE - 1) / GR_PAGE + !size, align > GR_PAGE ? align / GR_PAGE : 1, ret_zero);
	gr_heap_leave(shared);
	if (!p)
		errno = ENOMEM;
	return p;
}

static size_t size_of(const void *p)
{
	const struct gr_page *page = gr_page_of(p);
	if (page->kind == GR_PAGE_SMALL)
		return gr_class_size(page->cls);
	return (size_t)page->pages * GR_PAGE;
}

static bool is_ours(const void *p)
{
	uint64_t addr = (uint64_t)p;
	return addr >= GR_HEAP_ADDR && addr < GR_HEAP_ADDR + GR_HEAPS * (uint64_t)GR_HEAP_REGION;
}

// An allocator that the program brings along may have calls of its own (mallocx of jemalloc), whose blocks free and its like have to
// take as well. Of the C library's there is none.
static struct {
	void (*free)(void *);
	void *(*realloc)(void *, size_t);
	size_t (*size)(void *);
} brought;

void gr_heap_init(void)
{
	Dl_info next, libc;
	void *found = dlsym(RTLD_NEXT, "free");
	if (!dladdr(found, &next) || !dladdr((void *)dlvsym(RTLD_NEXT, "abort", "GLIBC_2.2.5"), &libc) || next.dli_fbase == libc.dli_fbase)
		return;
	brought.realloc = (void *(*)(void *, size_t))dlsym(RTLD_NEXT, "realloc");
	brought.size = (size_t (*)(void *))dlsym(RTLD_NEXT, "malloc_usable_size");
	brought.free = (void (*)(void *))found;
}

// Whose else is it? If nobody's, the C library would end the program here, too.
static bool is_brought(const void *p)
{
	if (__builtin_expect(is_ours(p), 1))
		return false;
	if (!brought.free)
		abort();
	return true;
}

EXPORT void *malloc(size_t size)
{
	bool zero;
	return take(size, 16, &zero);
}

static __attribute__((noinline)) void give(void *p, const struct gr_page *page)
{
	bool shared;
	struct gr_heap *heap = gr_heap_enter(&shared);
	if (page->kind == GR_PAGE_SMALL)
		give_small(heap, p, page->cls);
	else if (page->kind == GR_PAGE_LARGE)
		gr_pages_give(heap, p, page->pages);
	else
		abort();
	gr_heap_leave(shared);
}

EXPORT void free(void *p)
{
	const struct gr_thread *self = gr_self;
	if (!p)
		return;
	if (is_brought(p)) {
		brought.free(p);
		return;
	}
	const struct gr_page *page = gr_page_of(p);
	if (__builtin_expect(page->kind == GR_PAGE_SMALL && self && self->heap, 1))
		give_small(self->heap, p, page->cls);
	else
		give(p, page);
}

EXPORT void *calloc(size_t count, size_t size)
{
	bool zero;
	size_t total;
	if (__builtin_mul_overflow(count, size, &total)) {
		errno = ENOMEM;
		return NULL;
	}
	void *p = take(total, 16, &zero);
	if (p && !zero)
		memset(p, 0, total);
	return p;
}

EXPORT void *realloc(void *p, size_t size)
{
	if (!p)
		return malloc(size);
	if (!size) {
		free(p);
		return NULL;
	}
	if (is_brought(p))
		return brought.realloc(p, size);
	size_t have = size_of(p);
	if (size <= have && (have <= 64 || size > have / 2))
		return p;
	void *fresh = malloc(size);
	if (!fresh)
		return NULL;
	memcpy(fresh, p, size < have ? size : have);
	free(p);
	return fresh;
}

EXPORT void *reallocarray(void *p, size_t count, size_t size)
{
	size_t total;
	if (__builtin_mul_overflow(count, size, &total)) {
		errno = ENOMEM;
		return NULL;
	}
	return realloc(p, total);
}

static bool is_power(size_t n)
{
	return n && !(n & (n - 1));
}

EXPORT void *memalign(size_t align, size_t size)
{
	bool zero;
	while (!is_power(align)) // as glibc: rounded up
		align = align ? align + (align & -align) : 16;
	return take(size, align < 16 ? 16 : align, &zero);
}

EXPORT void *aligned_alloc(size_t align, size_t size)
{
	if (!is_power(align)) {
		errno = EINVAL;
		return NULL;
	}
	return memalign(align, size);
}

EXPORT int posix_memalign(void **ret, size_t align, size_t size)
{
	int before = errno;
	if (!is_power(align) || align % sizeof(void *))
		return EINVAL;
	void *p = memalign(align, size);
	errno = before;
	if (!p)
		return ENOMEM;
	*ret = p;
	return 0;
}

EXPORT void *valloc(size_t size)
{
	return memalign(GR_PAGE, size);
}

EXPORT void *pvalloc(size_t size)
{
	return memalign(GR_PAGE, (size + GR_PAGE - 1) & ~(size_t)(GR_PAGE - 1));
}

EXPORT size_t malloc_usable_size(void *p)
{
	if (!p)
		return 0;
	return is_brought(p) ? brought.size(p) : size_of(p);
}
