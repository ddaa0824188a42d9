// Calls of which no table says what they store: the memory behind their argument is looked at before and behind the call.
// Runs in: application threads while recording, on the engine's stack.
// May call: core.
// Owns: what of the memory is looked at.
//
// What differs becomes stores of the call, at the program's addresses, so a replay needs to know nothing about it. A store of another
// thread must not be taken for one of the call: with other threads there, the kernel is given a copy of what the argument leads to,
// which nobody else knows of. Pointers in it are followed then only where the table knows the structure.
#include <sys/mman.h>

#include "../../core/copy.h"
#include "../../core/nolibc.h"
#include "../../core/page.h"
#include "../../core/raw.h"
#include "memory.h"

#define UNKNOWN 0x4000 // bytes behind the argument
#define BEHIND 0x10000 // bytes behind a pointer in a structure
#define APART 16       // equal bytes between two stores

static uint64_t there(uint64_t addr, uint64_t most)
{
	char byte;
	uint64_t n = 0;
	while (n < most && gr_peek(&byte, addr + n, 1) == 1)
		n = ((addr + n) | 4095) + 1 - addr;
	return n < most ? n : most;
}

bool gr_compare_is_pointer(uint64_t addr)
{
	char byte;
	return gr_peek(&byte, addr, 1) == 1;
}

static uint8_t *take(struct gr_compare *c, uint64_t size)
{
	uint64_t at = (c->used + 15) & ~15ULL, base = gr_room(c->real.self, at + size);
	if (!base)
		return NULL;
	c->used = at + size;
	return (uint8_t *)base + at;
}

static void look_at(struct gr_compare *c, uint64_t addr, uint64_t most)
{
	for (unsigned i = 0; i < c->count; i++)
		if (addr >= c->region[i].at && addr < c->region[i].at + c->region[i].len)
			return;
	uint64_t len = there(addr, most);
	uint8_t *then = len && c->count < GR_COMPARE_REGIONS ? take(c, len) : NULL;
	if (then && gr_peek(then, addr, len) == len)
		c->region[c->count++] = (struct gr_region){addr, len, then};
}

static void follow(struct gr_compare *c, uint64_t addr, uint64_t size)
{
	uint64_t word;
	for (uint64_t at = 0; at + sizeof word <= size && gr_peek(&word, addr + at, sizeof word) == sizeof word; at += sizeof word)
		if (gr_compare_is_pointer(word))
			look_at(c, word, BEHIND);
}

// At the same place of a page as the program's own, so that it ends where that does.
static void copy(struct gr_compare *c, uint64_t arg, uint64_t len)
{
	uint64_t window = GR_WINDOW_ADDR + (uint64_t)c->real.self->block * GR_WINDOW_SIZE, at = window + (arg & 4095);
	uint64_t size = gr_whole_pages((arg & 4095) + len);
	if (GR_RAW(SYS_mmap, window, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != (long)window)
		return;
	if (gr_peek((void *)at, arg, len) == len) {
		c->program = arg;
		c->real.arg[2] = at;
	}
}

void gr_compare_begin(const struct gr_call *call, uint32_t declared, struct gr_compare *c)
{
	bool alone = __atomic_load_n(&gr_ctl->threads, __ATOMIC_RELAXED) <= 1;
	uint64_t arg = call->arg[2], known = call->ioctl.scale, size = known ? known : declared > UNKNOWN ? declared : UNKNOWN;
	c->real = *call;
	c->used = c->count = 0;
	c->program = 0;
	if (!alone && !known)
		copy(c, arg, there(arg, size));
	look_at(c, c->real.arg[2], size);
	if (known || alone)
		follow(c, arg, known ? known : declared);
}

// The bytes of a region that differ, in runs.
static void keep(const struct gr_region *r, uint64_t program, struct gr_stores *stores)
{
	const uint8_t *now = (const uint8_t *)r->at;
	for (uint64_t i = 0; i < r->len; i++) {
		if (now[i] == r->then[i])
			continue;
		uint64_t end = i + 1;
		for (uint64_t k = end; k < r->len && k < end + APART; k++)
			if (now[k] != r->then[k])
				end = k + 1;
		gr_store_add(stores, GR_STORE_BYTES, program + i, end - i, 0, now + i);
		i = end;
	}
}

void gr_compare_keep(const struct gr_compare *c, struct gr_stores *stores)
{
	for (unsigned i = 0; i < c->count; i++)
		keep(&c->region[i], i == 0 && c->program ? c->program : c->region[i].at, stores);
}

// INVARIANT(stamp-before-store): see stage.c.
void gr_compare_out(const struct gr_compare *c)
{
	const struct gr_region *r = c->region;
	for (uint64_t i = 0; c->program && c->count && i < r->len; i++)
		if (((const uint8_t *)r->at)[i] != r->then[i])
			gr_poke(c->program + i, (const uint8_t *)r->at + i, 1);
	if (c->program)
		GR_RAW(SYS_munmap, c->real.arg[2] & ~4095ULL, gr_whole_pages((c->real.arg[2] & 4095) + c->region[0].len));
}
