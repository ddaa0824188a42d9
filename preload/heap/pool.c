// The pool: what one heap has too much of, for others that need it. Every exchange is an operation.
// Runs in: application threads, on the engine's stack.
// May call: core.
// Owns: the pool's lists of blocks and of runs.
#include "pool.h"

#include "../core/page.h"
#include "../core/raw.h"
#include "../core/thread.h"

static struct gr_batch *batches[GR_CLASSES];
static struct gr_free runs[GR_BINS];
static uint32_t lock;

static void get_pages(struct gr_exchange *exchange)
{
	char *run = exchange->p = gr_run_fitting(runs, exchange->count);
	if (!run)
		return;
	size_t pages = gr_run_unlink((struct gr_free *)run), rest = pages - exchange->count;
	if (rest) // stays beside its neighbours; in another heap it would be lost to them
		gr_run_link(runs, GR_POOL, run + exchange->count * GR_PAGE, rest);
}

// INVARIANT(owner-only): the pool is an owner like a heap, and what it owns is changed under its lock only. What it gives away
// it does not own from then on.
static void put_pages(struct gr_exchange *exchange)
{
	for (struct gr_free *run = exchange->p, *next; run; run = next) {
		void *start = run;
		size_t pages = gr_page_of(run)->pages;
		next = run->next;
		gr_page_of(run)->pages = 0;
		pages = gr_run_merged(GR_POOL, &start, pages);
		gr_run_link(runs, GR_POOL, start, pages);
	}
	exchange->p = NULL;
}

void gr_pool_lock(void)
{
	gr_latch(&lock);
}

void gr_pool_unlock(void)
{
	gr_unlatch(&lock);
}

void gr_pool_exchange(struct gr_exchange *exchange)
{
	struct gr_batch *batch;
	switch ((enum gr_exchange_kind)exchange->kind) {
	case GR_EXCHANGE_GET_BLOCKS:
		batch = batches[exchange->cls];
		if (batch)
			batches[exchange->cls] = batch->below;
		exchange->p = batch;
		break;
	case GR_EXCHANGE_PUT_BLOCKS:
		for (batch = exchange->p; batch->below;)
			batch = batch->below;
		batch->below = batches[exchange->cls];
		batches[exchange->cls] = exchange->p;
		exchange->p = NULL;
		break;
	case GR_EXCHANGE_GET_PAGES:
		get_pages(exchange);
		break;
	case GR_EXCHANGE_PUT_PAGES:
		put_pages(exchange);
		break;
	}
}

// Where no operation can be made (inside another one, or with the engine off) nothing changes hands.
void gr_heap_exchange(struct gr_exchange *exchange)
{
	struct gr_thread *self = gr_self;
	if (self && !self->nest && gr_mode != GR_MODE_OFF)
		gr_heap_operation(exchange);
	else if (exchange->kind == GR_EXCHANGE_GET_BLOCKS || exchange->kind == GR_EXCHANGE_GET_PAGES)
		exchange->p = NULL;
}
