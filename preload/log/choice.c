// The choice; see choice.h.
// Runs in: application threads while recording, inside the turn's lock.
// May call: core.
// Owns: the generator that draws, the change points.
#include "choice.h"

#include "../core/page.h"

// Operations that a thread keeps the turn for while others want it (serial): a tenth of a millisecond, so that handing it over costs
// little beside that. A prime: a loop of as many operations as divide it would always be left at the same place.
#define KEEP 1021
#define CALL 15  // a system call counts for so many more, and so does one that asked in vain
#define HOLDS 64 // the turn is kept for so many more rather than with a lock in its hands
#define STARVES 10000 // operations before its priority drops (pct)
#define CHANGES 64    // the most change points

static struct {
	uint64_t drawn; // state of the generator
	uint64_t change[CHANGES];
	int64_t lowest;
} pct;

static uint64_t draw(void) // splitmix64
{
	uint64_t x = pct.drawn += 0x9e3779b97f4a7c15;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

struct gr_thread *gr_choice_make(struct gr_thread *self)
{
	uint64_t n = gr_turn.wanting + (self != NULL);
	struct gr_thread *t = gr_turn.wants.first, *best = self;
	if (!t)
		return self;
	if (gr_turn.urgent)
		return gr_turn.urgent;
	switch ((enum gr_order)gr_ctl->knob[GR_KNOB_order]) {
	case GR_ORDER_RANDOM:
		for (n = n > 1 ? draw() % n : 0; t && n; n--)
			t = t->seat.next;
		return t ? t : self;
	case GR_ORDER_PCT:
		for (; t; t = t->seat.next)
			if (!best || t->seat.priority > best->seat.priority)
				best = t;
		return best;
	default:
		return t;
	}
}

static void drop(struct gr_thread *self)
{
	self->seat.priority = --pct.lowest;
}

// PCT: at a change point the running thread gets a priority below all that were drawn, each one below the one before.
static void change_points(struct gr_thread *self)
{
	int64_t depth = gr_ctl->knob[GR_KNOB_pct_depth];
	for (int64_t i = 0; i < depth && i < CHANGES; i++)
		if (pct.change[i] == gr_ctl->steps)
			self->seat.priority = depth - i;
}

static uint64_t done(const struct gr_thread *self)
{
	return self->pub.ops - gr_turn.since + gr_turn.more;
}

static bool has_had_its_share(const struct gr_thread *self)
{
	return gr_turn.hurry || done(self) >= KEEP;
}

// Serial: goes on though others want to?
static bool keeps(const struct gr_thread *self, enum gr_step step)
{
	if (step >= GR_STEP_YIELD || gr_turn.urgent)
		return false;
	return !has_had_its_share(self) || (step == GR_STEP_GIVES && done(self) < KEEP + HOLDS);
}

struct gr_thread *gr_choice_next(struct gr_thread *self, enum gr_step step)
{
	bool yields = step >= GR_STEP_YIELD;
	enum gr_order order = gr_ctl->knob[GR_KNOB_order];
	self->seat.streak++;
	if (order == GR_ORDER_PCT) {
		change_points(self);
		if (gr_turn.wanting && (yields || self->seat.streak > STARVES))
			drop(self);
	}
	gr_turn.more += step == GR_STEP_CALL ? CALL : 0;
	if (!gr_turn.wanting || (order == GR_ORDER_SERIAL && keeps(self, step)))
		return self;
	return gr_choice_make(order == GR_ORDER_PCT || (order == GR_ORDER_RANDOM && !yields) ? self : NULL);
}

void gr_choice_handed(const struct gr_thread *t)
{
	gr_turn.hands++;
	gr_turn.since = t->pub.ops;
	gr_turn.more = 0;
	gr_turn.hurry = false;
}

void gr_choice_in_vain(void)
{
	gr_turn.more += CALL;
}

bool gr_choice_is_due(const struct gr_thread *self)
{
	return gr_turn.wanting && has_had_its_share(self);
}

void gr_choice_born(struct gr_thread *t)
{
	if (gr_ctl->knob[GR_KNOB_order] == GR_ORDER_PCT)
		t->seat.priority = (int64_t)(draw() >> 1 | 1ULL << 32);
}

void gr_choice_init(void)
{
	pct.drawn = gr_ctl->knob[GR_KNOB_seed];
	for (unsigned i = 0; i < CHANGES; i++)
		pct.change[i] = 1 + draw() % gr_ctl->knob[GR_KNOB_pct_steps];
}
