// Stacks of threads; see stack.h.
// Runs in: application threads, on the engine's stack.
// May call: core, raw system calls.
// Owns: the address range of stacks, the table of stacks.
#include "stack.h"

#include <sys/mman.h>

#include "../core/offsets.h"
#include "../core/page.h"
#include "../core/raw.h"
#include "../core/thread.h"
#include "heap.h"

#define STACKS 4096 // of different threads at a time, and of different sizes ever

enum state { UNUSED, IDLE, MAKING, ALIVE };

struct stack {
	uint64_t base; // with the guard
	uint64_t size, guard;
	uint64_t descriptor; // once it is born
	enum state state;
	bool detached;
};

_Static_assert(GR_HEAP_ADDR + (uint64_t)GR_HEAPS * GR_HEAP_REGION <= GR_STACKS_ADDR, "stacks lie above the heaps");

static struct stack table[STACKS];
static uint32_t used;
static uint64_t next = GR_STACKS_ADDR, tid_at;
static uint32_t locked;

void gr_stack_init(uint64_t tid_offset)
{
	tid_at = tid_offset;
}

// INVARIANT(no-stack-before-death): the kernel clears the id in the descriptor when the thread will not touch its stack
// any more. Somebody who joins has waited for that.
static bool is_free(const struct stack *s)
{
	if (s->state == ALIVE && s->detached)
		return __atomic_load_n((uint32_t *)(s->descriptor + tid_at), __ATOMIC_ACQUIRE) == 0;
	return s->state == IDLE;
}

static struct stack *find(uint64_t address)
{
	for (uint32_t i = 0; i < used; i++)
		if (address >= table[i].base && address < table[i].base + table[i].guard + table[i].size)
			return &table[i];
	return NULL;
}

static struct stack *fresh(uint64_t where, uint64_t size, uint64_t guard)
{
	uint64_t bytes = size + guard;
	if (used == STACKS || bytes < size || where < GR_STACKS_ADDR || where >= GR_STACKS_END || bytes > GR_STACKS_END - where)
		return NULL;
	long ret = GR_RAW(SYS_mmap, where, bytes, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK | MAP_FIXED_NOREPLACE, -1, 0);
	if (ret != (long)where)
		return NULL;
	GR_RAW(SYS_mprotect, where, guard, PROT_NONE);
	struct stack *s = &table[used++];
	*s = (struct stack){.base = where, .size = size, .guard = guard};
	if (next < where + bytes)
		next = where + bytes;
	return s;
}

uint64_t gr_stack_take(uint64_t where, uint64_t size, uint64_t guard, bool detached)
{
	struct stack *s = NULL;
	gr_latch(&locked);
	if (where) {
		s = find(where);
		if (s && (s->base != where || s->size != size || s->guard != guard))
			s = NULL;
		else if (!s)
			s = fresh(where, size, guard);
	} else {
		for (uint32_t i = 0; i < used && !s; i++)
			if (table[i].size == size && table[i].guard == guard && is_free(&table[i]))
				s = &table[i];
		if (!s)
			s = fresh(next, size, guard);
	}
	if (s) {
		s->state = MAKING;
		s->detached = detached;
	}
	gr_unlatch(&locked);
	return s ? s->base : 0;
}

void gr_stack_born(uint64_t descriptor)
{
	gr_latch(&locked);
	struct stack *s = find(descriptor);
	if (s) {
		s->descriptor = descriptor;
		s->state = ALIVE;
	}
	gr_unlatch(&locked);
}

void gr_stack_detached(uint64_t descriptor)
{
	gr_latch(&locked);
	struct stack *s = find(descriptor);
	if (s)
		s->detached = true;
	gr_unlatch(&locked);
}

void gr_stack_back(uint64_t address)
{
	gr_latch(&locked);
	struct stack *s = find(address);
	if (s)
		s->state = IDLE;
	gr_unlatch(&locked);
}

// Whoever is about to join may do so before the kernel has forgotten the thread, so what counts is that it has left the engine.
static bool is_dead(const struct stack *s)
{
	return s->state == IDLE || (s->state == ALIVE && !gr_thread_by_descriptor(s->descriptor));
}

bool gr_stack_is(uint64_t address)
{
	return address >= GR_STACKS_ADDR && address < GR_STACKS_END;
}

uint64_t gr_stack_dead(uint64_t address)
{
	if (address < GR_STACKS_ADDR || address >= GR_STACKS_END)
		return 0;
	gr_latch(&locked);
	const struct stack *s = find(address);
	uint64_t end = s && address < s->descriptor && is_dead(s) ? s->descriptor : 0;
	gr_unlatch(&locked);
	return end;
}

bool gr_stack_next_dead(uint32_t *at, uint64_t *start, uint64_t *end)
{
	gr_latch(&locked);
	while (*at < used && !is_dead(&table[*at]) && table[*at].state != MAKING) // nobody is born on it yet
		++*at;
	bool found = *at < used;
	if (found) {
		*start = table[*at].base + table[*at].guard;
		*end = *start + table[*at].size;
		++*at;
	}
	gr_unlatch(&locked);
	return found;
}

uint64_t gr_stack_guard(uint64_t address)
{
	gr_latch(&locked);
	const struct stack *s = gr_stack_is(address) ? find(address) : NULL;
	uint64_t guard = s && s->base + s->guard == address ? s->guard : 0;
	gr_unlatch(&locked);
	return guard;
}
