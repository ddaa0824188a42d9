// Signals between two operations: where a computation is interrupted, and found again; see frame.h.
// Runs in: application threads, in the engine's handler of SIGTRAP, on its alternate stack.
// May call: core, log, replay.
// Owns: what an event of such a signal holds.
#include <ucontext.h>

#include "../core/copy.h"
#include "../core/ops.h"
#include "../core/page.h"
#include "../core/panic.h"
#include "../log/log.h"
#include "../replay/gate.h"
#include "frame.h"
#include "loop/loop.h"
#include "preempt/preempt.h"
#include "signal.h"

struct between { struct gr_siginfo info; struct gr_state state; };

// From the timer of a recording, in whatever it interrupted.
void gr_signal_tick(struct gr_thread *self, struct gr_context *at)
{
	struct between data;
	if (!gr_signal_held(self)) {
		if (!gr_canceled_tick(self, at))
			gr_preempt_tick(self, at);
		return;
	}
	gr_signal_end_wait(at);
	if (!gr_context_is_program(self, at) || !gr_loop_look(self, at, &data.state)) {
		gr_tick_look(self);
		return;
	}
	int sig = self->held;
	gr_sigact_lock();
	struct gr_sigact act = gr_sigact_take(sig);
	data.info = self->held_info;
	__atomic_store_n(&self->held, 0, __ATOMIC_RELAXED);
	if (!gr_sigact_runs(&act) || self->sigmask & GR_BIT(sig)) { // since it came
		gr_sigact_unlock();
		gr_signal_put_back(self, sig, &data.info);
		at->mask = gr_mask_kernel(self);
		return;
	}
	struct gr_event ev = {
		.kind = GR_OP_SIGNAL, .nr = sig, .flags = GR_SIGNAL_LOOP, .object = at->greg[REG_RIP], .check = gr_signal_check_of(at),
		.data = (const uint8_t *)&data, .len = sizeof data,
	};
	gr_signal_show(self, at, act.handler);
	self->pub.state = GR_T_ENGINE;
	gr_log(self, &ev);
	gr_sigact_unlock();
	at->greg[REG_EFL] &= ~0x10000ULL; // RF
	gr_frame_enter(self, at, sig, &data.info, &act, self->sigmask, self->sigmask);
}

// At the end of an operation of a replay: is the next one a signal in the middle of the segment?
void gr_signal_seek(struct gr_thread *self)
{
	struct gr_event ev;
	if (gr_mode != GR_MODE_REPLAY || gr_signal_none(self))
		return;
	const void *place = gr_preempt_next(self);
	if (gr_gate_peek(self, &ev) && ev.kind == GR_OP_SIGNAL && ev.flags == GR_SIGNAL_LOOP && ev.len == sizeof(struct between))
		place = ev.data + sizeof(struct gr_siginfo);
	// The place is searched by what the memory holds, which must not be closed then.
	if (place && gr_copy_lift)
		gr_panic(self, GR_PANIC_REFUSED, "reads of so large a place over the segment of tick %u, which ends in the middle of a computation"
			 "\nwatch at most 64 bytes of it", self->pub.tick, 0);
	if (place)
		gr_loop_seek(self, place);
}

// From SIGTRAP of a replay: a tick or a pass of the search.
void gr_signal_look(struct gr_thread *self, const siginfo_t *info, struct gr_context *at)
{
	struct gr_event ev;
	if (!gr_loop_there(self, info, at, gr_context_is_program(self, at)))
		return;
	if (gr_preempt_next(self)) {
		gr_preempt_again(self, at);
		return;
	}
	gr_gate_peek(self, &ev);
	gr_signal_show(self, at, gr_sigact_get(ev.nr % GR_SIGNALS).handler);
	self->pub.state = GR_T_ENGINE;
	gr_gate_next(self, GR_OP_SIGNAL, ev.nr, at->greg[REG_RIP], &ev);
	gr_sigact_lock();
	struct gr_sigact act = gr_sigact_take(ev.nr % GR_SIGNALS);
	gr_sigact_unlock();
	if (!gr_sigact_runs(&act))
		gr_gate_desync(self, &ev, GR_OP_NONE, ev.nr, 0, "a signal that the program does not handle here");
	const struct gr_siginfo siginfo = gr_siginfo_of(&ev);
	gr_signal_seek(self);
	at->greg[REG_EFL] &= ~0x10000ULL; // RF
	gr_frame_enter(self, at, ev.nr, &siginfo, &act, self->sigmask, self->sigmask);
}
