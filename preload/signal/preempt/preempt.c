// Giving way; see preempt.h.
// Runs in: the engine's handlers, on their stack.
// May call: core, log, replay.
// Owns: nothing.
#include "preempt.h"

#include <ucontext.h>

#include "../../core/guard.h"
#include "../../core/nolibc.h"
#include "../../core/ops.h"
#include "../../core/page.h"
#include "../../core/panic.h"
#include "../../log/log.h"
#include "../../log/turn.h"
#include "../../replay/gate.h"

#define EFLAGS_RF 0x10000ULL

static void show(struct gr_thread *self, const struct gr_context *at)
{
	gr_show_context(self, at);
	self->pub.ret_pc = at->greg[REG_RIP];
	self->pub.op = GR_OP_PREEMPT;
	self->pub.state = GR_T_ENGINE;
}

// ---------------------------------------------------------------- recording
// INVARIANT(stopped-before-others): the stop is in the log before anybody else runs, so what the thread did up to there is replayed
// also where the recording ends before it goes on.
static void give_way(struct gr_thread *self, struct gr_context *at, const struct gr_state *state, enum gr_preempt how)
{
	struct gr_event stop = {
		.kind = GR_OP_PREEMPT, .flags = how, .object = at->greg[REG_RIP], .data = (const uint8_t *)state, .len = sizeof *state,
	};
	struct gr_event on = {.kind = GR_OP_RESUME, .object = at->greg[REG_RIP]};
	show(self, at);
	gr_log(self, &stop);
	gr_turn_step(self, GR_STEP_STOP);
	self->seat.again = how == GR_PREEMPT_LOOP;
	self->pub.op = GR_OP_RESUME;
	gr_log(self, &on);
	gr_canceled_resume(self, at);
	at->greg[REG_EFL] &= ~EFLAGS_RF;
	self->pub.state = GR_T_RUNNING;
}

// The first look comes long before the others: what has changed when they come is known to change at all.
static void begin_place(struct gr_thread *self, struct gr_context *at)
{
	struct gr_state state;
	gr_loop_forget(self);
	self->placed_ops = self->pub.ops + 1;
	gr_loop_look(self, at, &state);
}

// Others need not wait until they have done so for long.
static void wait_no_longer(struct gr_thread *self, struct gr_context *at)
{
	self->proved_ops = self->pub.ops + 1;
	self->counts = false;
	self->pauses = true;
	__atomic_store_n(&self->seat.asked, GR_ASK_PLACE, __ATOMIC_RELAXED);
	begin_place(self, at);
	gr_tick_look(self);
}

// Again and again, as long as it has not come to an operation: it may have begun to spin meanwhile. A debugger that looks sees it where it
// was interrupted.
static void prove(struct gr_thread *self, struct gr_context *at)
{
	struct gr_state state;
	bool again = self->proved_ops == self->pub.ops + 1;
	self->proved_ops = self->pub.ops + 1;
	show(self, at);
	enum gr_spin spin = gr_spin_look(self, at, &state);
	self->pub.state = GR_T_RUNNING;
	self->counts = spin == GR_SPIN_COUNTER || (again && self->counts);
	self->pauses = false;
	if (spin == GR_SPIN_PROVED)
		give_way(self, at, &state, GR_PREEMPT_SPIN);
	else if (spin == GR_SPIN_PAUSES)
		wait_no_longer(self, at);
	else if (!again)
		begin_place(self, at);
}

// INVARIANT(no-guessed-place): a computation that depends on the time stamp counter, which nobody records, is another one on replay.
static void find_place(struct gr_thread *self, struct gr_context *at)
{
	struct gr_state state;
	if (self->counts && !gr_tsc_recorded)
		gr_panic(self, GR_PANIC_REFUSED, "a loop that reads the time stamp counter, and keeps others from running, with one thread at a time"
			 "\nrecord with --set tsc=record", 0, 0);
	if (self->placed_ops != self->pub.ops + 1) // a signal's looks came in between
		begin_place(self, at);
	if (!gr_loop_look(self, at, &state)) {
		gr_tick_look(self);
		return;
	}
	state.most = gr_loop_time();
	state.least = gr_loop_computed(self);
	give_way(self, at, &state, self->pauses ? GR_PREEMPT_WAIT : GR_PREEMPT_LOOP);
}

static void be_asked(struct gr_thread *self, struct gr_context *at, enum gr_ask ask)
{
	if (!gr_context_is_program(self, at)) {
		gr_tick_look(self); // it comes to an operation, or back
		return;
	}
	if (ask == GR_ASK_PROOF && gr_spin_pauses(at))
		wait_no_longer(self, at);
	else if (ask == GR_ASK_PROOF || self->proved_ops != self->pub.ops + 1)
		prove(self, at);
	else
		find_place(self, at);
}

void gr_preempt_tick(struct gr_thread *self, struct gr_context *at)
{
	enum gr_ask ask = gr_turn_asked(self);
	if (ask != GR_ASK_NOTHING)
		be_asked(self, at, ask);
}

// ---------------------------------------------------------------- replaying
const void *gr_preempt_next(struct gr_thread *self)
{
	struct gr_event ev;
	bool next = gr_gate_peek(self, &ev) && ev.kind == GR_OP_PREEMPT && ev.len == sizeof(struct gr_state);
	return next ? ev.data : gr_canceled_next(self);
}

void gr_preempt_again(struct gr_thread *self, struct gr_context *at)
{
	struct gr_event ev;
	if (gr_canceled_next(self)) {
		gr_canceled_again(self, at);
		return;
	}
	show(self, at);
	gr_gate_next(self, GR_OP_PREEMPT, 0, at->greg[REG_RIP], &ev);
	if (self->left) { // else the recording ended before it went on
		self->pub.op = GR_OP_RESUME;
		gr_gate_next(self, GR_OP_RESUME, 0, at->greg[REG_RIP], &ev);
		gr_canceled_resume(self, at);
		gr_signal_seek(self);
	}
	at->greg[REG_EFL] &= ~EFLAGS_RF;
	gr_context_out(self, at);
	self->pub.state = GR_T_RUNNING;
}
