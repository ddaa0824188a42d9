// Delivery between two operations: a thread that computes and comes to none gets its signal where it is. The state there,
// the search for it on replay, the way back for a search that went too far, and the timer of all this.
// Runs in: the engine's handlers, on their stack.
// May call: core, replay.
// Owns: the samples of a recording, the search of a replay, the kernel's timers of the engine.
#pragma once

#include "../frame.h"

// ---------------------------------------------------------------- state.c: registers, vector state and memory
#define GR_STATE_PAGES 32
#define GR_STATE_WHOLE (1ULL << 32)
#define GR_STATE_REGISTERS 18 // r8 up to eflags, in the kernel's order

// Follows the siginfo in the event's data.
struct gr_state {
	uint64_t greg[GR_STATE_REGISTERS];
	uint64_t vectors;     // hash of x87, XMM and YMM
	uint64_t memory;      // hash of what the program may write, of the words below, or of both
	uint64_t pilot;       // a word that only rises or only falls: see gr_state_pilot; 0: none found
	uint64_t pilot_value;
	uint64_t falls;       // the pilot does
	uint64_t partial;     // 0: all memory counts; else 1 + number of pages of which some words do, with GR_STATE_WHOLE: too
	uint64_t page[GR_STATE_PAGES];
	uint64_t words[GR_STATE_PAGES][8]; // a bit for each word of the page
	uint64_t least;       // ns that the thread has computed since its last operation, at least; 0: not known
	uint64_t most;        // the same, at most
	uint64_t rest;        // hash of words on these pages that have rested for a while, by which a stretch of a loop is known; 0: none
	uint64_t resting[GR_STATE_PAGES][8];
	uint64_t wide;        // hash of the vector state above YMM; 0: it does not count
};

_Static_assert(sizeof(struct gr_state) == (GR_STATE_REGISTERS + 10 + 17 * GR_STATE_PAGES) * 8, "written as it is");

// With several threads that run at the same time the others' memory is of another moment on replay, and so are the locks that
// they wait for: then only words that were seen to change count, which `ret->partial` and what follows it name beforehand.
//
// With one, or one at a time, all memory counts but for stacks of others, and for what a replay leaves otherwise in locks and the
// like; of that, words that were seen to change count too: INVARIANT(no-loop-in-a-lock): memory that was a lock once, and is what
// a loop computes by now, is compared like any other.
void gr_state_take(struct gr_thread *self, const struct gr_context *at, struct gr_state *ret);

// Is this it? Registers are compared first, so a visit that is not it costs little. `looks` counts the others.
bool gr_state_is(struct gr_thread *self, const struct gr_context *at, const struct gr_state *state, uint32_t *looks);

// One word at the pilot's place; false if it is not there. A pilot is 1 + the number of a register, then of half an XMM register,
// or an address: of a word, or plus GR_STATE_HALF of half a word.
#define GR_STATE_HALF 1
#define GR_STATE_HALVES 32
#define GR_STATE_PILOTS (GR_STATE_REGISTERS - 2 + GR_STATE_HALVES) // without rip and flags
bool gr_state_pilot(const struct gr_context *at, uint64_t pilot, uint64_t *ret);

// Are the words that rested what they were?
bool gr_state_rests(const struct gr_state *state);

// Calls `each` for every readable and writable range of the program's memory that a recording and its replay have alike. False
// if one was left out for its size.
bool gr_state_ranges(struct gr_thread *self, const struct gr_context *at, void (*each)(void *arg, uint64_t from, uint64_t to),
		     void *arg);

uint64_t gr_state_page(uint64_t page, uint64_t from, uint64_t to);

// init.c: what stands on the stack from here up is not the program's.
extern uint64_t gr_state_stack_top;

// ---------------------------------------------------------------- sample.c, seek.c: finding it
// Recording: one look at a thread that has held a signal for too long. True when `ret` says where it is and how to come
// there again; else it wants another look.
bool gr_loop_look(struct gr_thread *self, const struct gr_context *at, struct gr_state *ret);
void gr_loop_forget(struct gr_thread *self);

// What the program had of the thread's time since the first look.
uint64_t gr_loop_computed(struct gr_thread *self);

// The thread's own time in ns: how fast it is does not depend on what else the machine does.
uint64_t gr_loop_time(void);

// Replaying, at the end of an operation: the thread shall be stopped where it is in this struct gr_state.
void gr_loop_seek(struct gr_thread *self, const void *state);
bool gr_loop_seeks(void);

// Replaying, from SIGTRAP in the program's code: true when the thread is there.
bool gr_loop_there(struct gr_thread *self, const siginfo_t *info, struct gr_context *at, bool in_program);

// From any other SIGTRAP: did a pass of the search come with it, which then sent no signal of its own?
bool gr_loop_merged(void);

// Is this the search's own int3?
bool gr_loop_is_trap(const siginfo_t *info, const struct gr_context *at);

// Behind a single step, whoever wanted it: the search's int3 stands again.
void gr_loop_stepped(void);

// ---------------------------------------------------------------- origin.c: the process as it was
#define GR_ORIGIN_SIZE 0x1000000000

// Keeps the state, once.
void gr_origin_keep(struct gr_thread *self, const struct gr_context *at);

// Puts it back: memory, registers, vector state. Else says why it cannot.
const char *gr_origin_return(struct gr_thread *self, struct gr_context *at);
void gr_origin_drop(void);

// ---------------------------------------------------------------- tick.c: a timer whose signal is SIGTRAP, which is never blocked
#define GR_TICK_PATIENCE 20000000 // ns without an operation before a signal is delivered elsewhere
#define GR_TICK_LOOK 1000000      // ns between two looks at a thread without operations, on average
#define GR_TICK_KICK 50000        // ns until a call is looked at that was issued with a signal held
// Until a tick comes again that a debugger has kept for itself. INVARIANT(slow-again): long enough that a debugger has looked at the one
// before, whose handler else never comes to its first instruction, until the handlers' stack is full.
#define GR_TICK_LOST 100000000

// In `first` ns and then every `again`; 0 stops it. False if there is no timer to be had.
bool gr_tick_arm(struct gr_thread *self, uint64_t first, uint64_t again);

// In front of a call that waits, with no signal held: the timer would end it, and the program would see an error that has no reason.
static inline void gr_tick_rest(struct gr_thread *self)
{
	if (self->ticking && !gr_signal_held(self))
		gr_tick_arm(self, 0, 0);
}
// In GR_TICK_LOOK, more or less. INVARIANT(uneven-looks): in even ones an inner loop that begins again and again would seem to rise
// or to fall, as a wheel does in a film.
void gr_tick_look(struct gr_thread *self);
bool gr_tick_is(const struct gr_thread *self, const siginfo_t *info);
void gr_tick_delete(struct gr_thread *self);
