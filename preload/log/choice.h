// Who has the turn next, of those who want it: the business of the order.
// Runs in: application threads while recording, inside the turn's lock.
// May call: core.
// Owns: the generator that draws, priorities, and for how long one keeps the turn.
#pragma once

#include "turn.h"

enum gr_seat_state { GR_SEAT_RUNS, GR_SEAT_WANTS, GR_SEAT_WAITS };

struct gr_seats { struct gr_thread *first, *last; };

struct gr_turn {
	uint32_t lock;  // block plus 1 of the thread inside
	uint32_t owner; // block plus 1 of the thread that has the turn; 0: nobody
	struct gr_seats wants, waits;
	uint32_t wanting;
	uint64_t steps; // anything that whoever has the turn did, but for what is only counted
	uint64_t hands; // how often it changed hands
	uint64_t since; // what its owner had counted then
	uint32_t more;  // and what else counts since then
	bool hurry;     // the owner has had it for long
	struct gr_thread *urgent;
	uint32_t dying; // kernel id of a thread that is on its way out of the kernel
	uint32_t *dying_ctid;
};

extern struct gr_turn gr_turn;

// Among those who want the turn, and `self` unless NULL. Where there is no choice, nothing is drawn.
struct gr_thread *gr_choice_make(struct gr_thread *self);

// The one who has the turn from here on, perhaps `self`, which has it.
struct gr_thread *gr_choice_next(struct gr_thread *self, enum gr_step step);

// The turn is another's now.
void gr_choice_handed(const struct gr_thread *t);

// Its operation was in vain: it will perhaps do nothing but ask.
void gr_choice_in_vain(void);

// Serial: it has had its share, and others want theirs.
bool gr_choice_is_due(const struct gr_thread *self);

void gr_choice_init(void);
void gr_choice_born(struct gr_thread *t);
