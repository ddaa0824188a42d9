// The memory of the process as it was, kept aside in the engine's zone; see loop.h. Not in a process of its own: a replay makes
// none (tables/fence.def).
// Runs in: the engine's handlers of a replay, on their stack.
// May call: core, replay.
// Owns: the area at GR_ORIGIN_ADDR and the registers that belong to it.
#include "loop.h"

#include <sys/mman.h>

#include "../../core/copy.h"
#include "../../core/nolibc.h"
#include "../../core/raw.h"
#include "../../replay/gate.h"

#define PAGE 4096ULL
#define VECTORS 4096

struct span { uint64_t from, to; };

_Static_assert(GR_ORIGIN_ADDR + GR_ORIGIN_SIZE <= GR_ZONE_END, "zone layout");

// The area: the spans, then their bytes. `lacks` says why there is nothing to put back.
static struct {
	bool kept;
	uint64_t count, spans_size, size;
	const char *lacks;
	struct gr_context context;
	uint8_t vectors[VECTORS];
} origin;

static void measure(void *arg, uint64_t from, uint64_t to)
{
	(void)arg;
	origin.count++;
	origin.size += to - from;
}

static bool is_zero(const uint64_t *page, size_t n)
{
	uint64_t any = 0;
	for (size_t i = 0; i < n / 8; i++)
		any |= page[i];
	return !any;
}

// What is zero takes no memory: the area is, where nothing was written.
static void keep(uint64_t kept, uint64_t from, size_t n)
{
	uint64_t page[PAGE / 8] = {0};
	gr_peek(page, from, n);
	if (!is_zero(page, sizeof page))
		memcpy((void *)kept, page, n);
}

// What did not change stays as it is, and shared with the checkpoint that it came from.
static void put_back(uint64_t kept, uint64_t from, size_t n)
{
	uint64_t page[PAGE / 8];
	n = gr_peek(page, from, n);
	if (memcmp(page, (const void *)kept, n) != 0)
		gr_poke_unseen(from, (const void *)kept, n);
}

static void each_page(void (*each)(uint64_t kept, uint64_t from, size_t n))
{
	const struct span *spans = (const struct span *)GR_ORIGIN_ADDR;
	uint64_t kept = GR_ORIGIN_ADDR + origin.spans_size;
	for (uint64_t i = 0; i < origin.count; i++)
		for (uint64_t from = spans[i].from, n; from < spans[i].to; from += n, kept += n) {
			n = PAGE - from % PAGE;
			if (n > spans[i].to - from)
				n = spans[i].to - from;
			each(kept, from, n);
		}
}

static void list(void *arg, uint64_t from, uint64_t to)
{
	uint64_t *next = arg;
	if (*next < origin.count)
		((struct span *)GR_ORIGIN_ADDR)[(*next)++] = (struct span){from, to};
}

// The heap has grown since then, into memory that it takes for zero. Nothing else has: a segment makes no calls.
static void clear(void *arg, uint64_t from, uint64_t to)
{
	static const uint8_t zero[PAGE];
	const struct span *spans = (const struct span *)GR_ORIGIN_ADDR;
	(void)arg;
	for (uint64_t i = 0; i < origin.count; i++)
		if (spans[i].from == from)
			from = spans[i].to;
	for (uint64_t n; from < to; from += n) {
		n = PAGE - from % PAGE;
		if (n > to - from)
			n = to - from;
		put_back((uint64_t)zero, from, n);
	}
}

// Other threads stand at the gate meanwhile, so all memory is of one moment.
void gr_origin_keep(struct gr_thread *self, const struct gr_context *at)
{
	uint64_t next = 0;
	if (origin.kept)
		return;
	origin.kept = true;
	gr_gate_on_rewind(false);
	origin.count = origin.size = 0;
	origin.lacks = NULL;
	origin.context = *at;
	if (gr_frame_vectors() > VECTORS)
		origin.lacks = "a signal in the middle of a computation, whose place was passed with a vector state too large to be kept";
	else if (!gr_state_ranges(self, at, measure, NULL))
		origin.lacks = "a signal in the middle of a computation, whose place was passed with a mapping too large to be kept";
	if (origin.lacks)
		return;
	origin.spans_size = (origin.count * sizeof(struct span) + PAGE - 1) & ~(PAGE - 1);
	origin.size += origin.spans_size;
	if (origin.size > GR_ORIGIN_SIZE ||
	    GR_RAW(SYS_mmap, GR_ORIGIN_ADDR, origin.size, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0) != (long)GR_ORIGIN_ADDR) {
		origin.lacks = "a signal in the middle of a computation, whose place was passed with no memory to have kept a copy in";
		return;
	}
	memcpy(origin.vectors, (const void *)at->fpstate, gr_frame_vectors());
	gr_state_ranges(self, at, list, &next);
	each_page(keep);
}

const char *gr_origin_return(struct gr_thread *self, struct gr_context *at)
{
	if (origin.lacks)
		return origin.lacks;
	gr_state_ranges(self, &origin.context, clear, NULL); // while the heap still says how far it goes
	each_page(put_back);
	memcpy(at->greg, origin.context.greg, GR_STATE_REGISTERS * sizeof *at->greg);
	memcpy((void *)at->fpstate, origin.vectors, gr_frame_vectors());
	gr_gate_on_rewind(true);
	return NULL;
}

void gr_origin_drop(void)
{
	if (origin.kept && !origin.lacks)
		GR_RAW(SYS_munmap, GR_ORIGIN_ADDR, origin.size);
	origin.kept = false;
}
