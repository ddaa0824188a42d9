// Asynchronous cancellation of a thread that computes: it acts between two operations, in a state by which a replay finds it again.
// Runs in: the engine's handlers, on their stack.
// May call: core, log, replay.
// Owns: nothing.
#include <ucontext.h>

#include "../../core/guard.h"
#include "../../core/ops.h"
#include "../../core/page.h"
#include "../../log/log.h"
#include "../../log/turn.h"
#include "../../replay/cancel.h"
#include "../../replay/gate.h"
#include "preempt.h"

#define ODD_FLAGS 0x10500ULL // RF, DF, TF

static void show(struct gr_thread *self, const struct gr_context *at)
{
	gr_show_context(self, at);
	self->pub.ret_pc = at->greg[REG_RIP];
	self->pub.op = GR_OP_CANCELED;
	self->pub.state = GR_T_ENGINE;
}

static void act(struct gr_thread *self, struct gr_context *at)
{
	self->cancel = 2;
	uint64_t rsp = at->greg[REG_RSP], rip = at->greg[REG_RIP];
	gr_cancel_turn_between(&rsp, &rip);
	at->greg[REG_RSP] = rsp;
	at->greg[REG_RIP] = rip;
	at->greg[REG_EFL] &= ~ODD_FLAGS;
}

// ---------------------------------------------------------------- recording
// As for a signal that is held: it may well come to an operation first.
void gr_canceled_open(struct gr_thread *self, bool acts)
{
	if (acts && gr_turn_on) // there the timer also looks at who computes
		return;
	if (acts) {
		if (self->timer)
			gr_tick_arm(self, 0, 0); // it would end a call that waits
		return;
	}
	gr_loop_forget(self);
	self->placed_ops = 0;
	gr_tick_arm(self, GR_TICK_PATIENCE, 0);
}

bool gr_canceled_tick(struct gr_thread *self, struct gr_context *at)
{
	struct gr_state state;
	struct gr_event ev = {
		.kind = GR_OP_CANCELED, .flags = GR_CANCEL_LOOP, .object = at->greg[REG_RIP], .data = (const uint8_t *)&state, .len = sizeof state,
	};
	if (self->cancel != 1 || !gr_cancel_open(self))
		return false;
	bool here = gr_context_is_program(self, at) && gr_cancel_is_due(self, at->greg[REG_RIP]);
	if (!here || !gr_loop_look(self, at, &state)) {
		gr_tick_look(self);
		return true;
	}
	show(self, at);
	gr_log(self, &ev);
	act(self, at);
	self->pub.state = GR_T_RUNNING;
	return true;
}

void gr_canceled_resume(struct gr_thread *self, struct gr_context *at)
{
	struct gr_event ev = {.kind = GR_OP_CANCELED, .flags = GR_CANCEL_RESUMED, .object = at->greg[REG_RIP]};
	if (gr_mode == GR_MODE_RECORD) {
		if (self->cancel == 1 && gr_cancel_open(self) && !gr_cancel_is_due(self, at->greg[REG_RIP]))
			gr_canceled_open(self, false);
		if (!gr_cancel_is_due(self, at->greg[REG_RIP]))
			return;
		self->pub.op = GR_OP_CANCELED;
		gr_log(self, &ev);
	} else {
		struct gr_event next;
		if (!gr_gate_peek(self, &next) || next.kind != GR_OP_CANCELED || next.flags != GR_CANCEL_RESUMED)
			return;
		self->pub.op = GR_OP_CANCELED;
		gr_gate_next(self, GR_OP_CANCELED, 0, at->greg[REG_RIP], &ev);
	}
	act(self, at);
}

// ---------------------------------------------------------------- replaying
const void *gr_canceled_next(struct gr_thread *self)
{
	struct gr_event ev;
	bool next = gr_gate_peek(self, &ev) && ev.kind == GR_OP_CANCELED && ev.flags == GR_CANCEL_LOOP && ev.len == sizeof(struct gr_state);
	return next ? ev.data : NULL;
}

void gr_canceled_again(struct gr_thread *self, struct gr_context *at)
{
	struct gr_event ev;
	show(self, at);
	gr_gate_next(self, GR_OP_CANCELED, 0, at->greg[REG_RIP], &ev);
	act(self, at);
	gr_context_out(self, at);
	self->pub.state = GR_T_RUNNING;
}
