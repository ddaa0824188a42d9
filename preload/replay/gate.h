// The gate of a replay: operations happen in the demo's total order, one thread at a time.
// Runs in: application threads while replaying.
// May call: core, log/codec, ctl.
// Owns: the tick, whose turn it is, and the places where a replay stands still.
#pragma once

#include <stdbool.h>

#include "../core/ops.h"
#include "../core/page.h"
#include "../core/thread.h"
#include "../log/codec.h"
#include "../log/turn.h"

struct gr_replay {
	uint64_t run;      // row of the order under way
	uint32_t left;     // operations left in it
	uint32_t final;    // thread that runs its unfinished segment behind the last tick; ~0: none
	uint64_t tick;     // next tick
	uint32_t seen;     // newest command taken
	uint32_t grown;    // of the image, when it was looked at last
	struct gr_thread *dying; // ended at the last tick; gone when its ctid is clear
	uint32_t lent;           // 1 + the thread that runs behind its last operation while another has the turn
	uint64_t trace_tick;     // tick whose segment is single-stepped; ~0: none
};

extern struct gr_replay gr_replay;

_Static_assert(offsetof(struct gr_replay, left) == GR_REPLAY_LEFT && offsetof(struct gr_replay, tick) == GR_REPLAY_TICK, "quick.S");

// The last step of an operation: how many that follow it nobody needs to look at one by one, because they stand in one piece in the
// thread's stream and in the order, and neither a stop nor a point, a trace or a digest is among them. What looks at an operation has
// none of that left: it goes by what is counted with each.
void gr_gate_quick(struct gr_thread *self);

// Only those on a mutex that this thread has used in this run: in every order but `parallel` the engine has to know each
// primitive from the first operation on (INVARIANT(known-on-arrival)).
extern bool gr_quick_known;

// Did this thread come to any operation?
bool gr_gate_has(uint32_t index);

// Opens the thread's stream in the image.
void gr_gate_open(struct gr_thread *self);

// Waits for this thread's next tick and takes its event, which must be of this kind. When the demo holds something else,
// the replay is desynchronised and ends here.
void gr_gate_next(struct gr_thread *self, enum gr_op op, uint16_t nr, uint64_t object, struct gr_event *ret);

// Is this operation the thread's next one, but for some that may be missing? `object` 0 stands for any.
bool gr_gate_ahead(struct gr_thread *self, enum gr_op op, uint64_t object);

// Lets everything happen that comes before this thread's next tick, without taking that.
void gr_gate_turn(struct gr_thread *self);
// Called in front of gr_gate_next, unless it is for what is found there: handlers that ran in the middle of the operation run now, and
// a thread that left it there does so.
extern void (*gr_gate_on_signal)(struct gr_thread *self);

// The kind of the next event, GR_OP_NONE in the middle of a run and at the end: an event's first byte.
static inline uint8_t gr_gate_kind(const struct gr_thread *self)
{
	return self->run_left || !self->left ? GR_OP_NONE : *self->pos;
}

// The place in front of an operation where the turn is handed over, in a recording in turns and where one was replayed.
void gr_gate_step(struct gr_thread *self, enum gr_step step);
static inline bool gr_gate_steps(const struct gr_thread *self)
{
	return gr_turn_steps || (gr_mode == GR_MODE_REPLAY && gr_gate_kind(self) == GR_OP_TURN);
}

// The event after that, without taking it. False if the stream ends.
bool gr_gate_peek(struct gr_thread *self, struct gr_event *ret);

// Behind an operation: a thread whose stream is used up stays here until the order is.
void gr_gate_behind(struct gr_thread *self);

// The last step of every operation: back to the program, single-stepped if its segment is traced.
void gr_gate_out(struct gr_thread *self, struct gr_regs *frame);

// The last words of a thread: gives the turn away without coming back.
void gr_gate_leave(struct gr_thread *self);

_Noreturn void gr_gate_desync(struct gr_thread *self, const struct gr_event *want, enum gr_op op, uint16_t nr,
			      uint64_t object, const char *text);

// Stands still in the given state until the controller lets this process go on. Commands other than GR_CMD_RUN and
// GR_CMD_DIE go to the hook that the layers above put in.
void gr_gate_stand(struct gr_thread *self, enum gr_slot_state state);
extern void (*gr_gate_on_command)(struct gr_thread *self, enum gr_cmd cmd);
extern void (*gr_gate_on_born)(struct gr_thread *self);
extern void (*gr_gate_on_stand)(enum gr_slot_state state);
// A place in this segment is kept (false), or gone back to (true).
extern void (*gr_gate_on_rewind)(bool back);
// An operation was taken; the program goes on behind one. NULL as long as nobody wants to know.
extern void (*gr_gate_on_taken)(enum gr_op op, uint16_t nr);
extern void (*gr_gate_on_out)(void);
// The segment of this tick begins: the thread goes on in the program. NULL as long as nobody wants to know.
extern void (*gr_gate_on_segment)(uint64_t tick);

// Stops for the debugger where one is attached (GR_SLOT_DEBUGGED).
void gr_debug_trap(void);

// Stops the recorded process for the debugger that catches system call NR, or gets signal NR with INFO. Tells whether that
// signal is to be forgotten.
bool gr_debug_call(enum gr_debug_where where, uint64_t nr, const void *info);
