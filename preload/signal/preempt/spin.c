// The proof that a thread spins; see preempt.h. It is executed apart, from where it was interrupted. INVARIANT(no-net-store): when it is
// back there, each word that an instruction touched on the way, by reading or by writing, is what it was. With registers and
// vector state equal, too, what comes next is what came before, for as long as nobody else changes one of these words; and
// nobody else runs. Who has only just begun to spin may not come back there, and does when he is looked at again.
// Runs in: the engine's handlers, on their stack.
// May call: core.
// Owns: the loops that have been found to wait.
#include "preempt.h"

#include <ucontext.h>

#include "../../core/nolibc.h"
#include "apart.h"

#define STEPS 4000
#define PAGE 4096ULL
#define PLACES 16 // of a `pause` in loops that cannot be proved; then the oldest is forgotten

static uint64_t places[PLACES];
static uint32_t found;

static bool is_back(const struct gr_context *at)
{
	if (gr_apart.greg[REG_RIP] != at->greg[REG_RIP] || memcmp(gr_apart.greg, at->greg, sizeof gr_apart.greg) != 0)
		return false;
	for (uint32_t i = 0; i < gr_apart.count; i++)
		if (gr_apart.word[i].now != gr_apart.word[i].was)
			return false;
	return !memcmp(gr_apart.vectors, (const void *)at->fpstate, sizeof gr_apart.vectors);
}

// Which words count. False if they lie on too many pages.
static bool describe(struct gr_state *ret)
{
	memset(ret, 0, sizeof *ret);
	for (uint32_t i = 0; i < gr_apart.count; i++) {
		uint64_t page = gr_apart.word[i].addr & ~(PAGE - 1), bit = gr_apart.word[i].addr % PAGE / 8;
		uint64_t p = 0;
		while (p < ret->partial && ret->page[p] != page)
			p++;
		if (p == GR_STATE_PAGES)
			return false;
		if (p == ret->partial)
			ret->page[ret->partial++] = page;
		ret->words[p][bit / 64] |= 1ULL << bit % 64;
	}
	ret->partial++;
	return true;
}

// What is not proved, but executes `pause`, says itself that it waits, which nobody does who has something to compute.
static enum gr_spin unproved(uint64_t pause)
{
	if (!pause)
		return GR_SPIN_NONE;
	places[found++ % PLACES] = pause;
	return GR_SPIN_PAUSES;
}

bool gr_spin_pauses(const struct gr_context *at)
{
	uint64_t rip = at->greg[REG_RIP];
	for (unsigned i = 0; i < PLACES; i++)
		if (rip == places[i] || rip == places[i] + 2) // nearly all of the loop's time
			return true;
	return false;
}

static enum gr_spin follow(struct gr_thread *self, const struct gr_context *at, struct gr_state *ret)
{
	uint64_t pause = 0;
	for (uint32_t steps = 0; steps < STEPS && !gr_in_engine(gr_apart.greg[REG_RIP]); steps++) {
		uint64_t rip = gr_apart.greg[REG_RIP];
		enum gr_touched known = gr_apart_step(self->fs_base);
		if (known == GR_TOUCH_COUNTER)
			return GR_SPIN_COUNTER;
		if (known != GR_TOUCH_KNOWN)
			break;
		if (gr_apart_paused())
			pause = rip;
		if (is_back(at) && describe(ret)) {
			gr_state_take(self, at, ret);
			return GR_SPIN_PROVED;
		}
	}
	return unproved(pause);
}

enum gr_spin gr_spin_look(struct gr_thread *self, const struct gr_context *at, struct gr_state *ret)
{
	if (!gr_apart_begin(at->greg, at->fpstate > GR_CLEAN_VECTORS ? (const void *)at->fpstate : NULL))
		return GR_SPIN_NONE;
	enum gr_spin spin = follow(self, at, ret);
	gr_apart_end();
	return spin;
}
