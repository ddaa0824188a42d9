// Operations that carry no data; see op.h.
// Runs in: application threads, on the engine's stack.
// May call: core, log, replay.
// Owns: the way from an exported wrapper to the function that does its work.
#include "op.h"

#include "../core/panic.h"
#include "../log/log.h"
#include "../replay/gate.h"
#include "../signal/signal.h"

void gr_op_log(struct gr_thread *self, enum gr_op op, uint64_t object, long result)
{
	struct gr_event ev = {.kind = op, .object = object, .result = result};
	gr_log(self, &ev);
}

long gr_op_result(struct gr_thread *self, enum gr_op op, uint64_t object)
{
	struct gr_event ev;
	gr_gate_next(self, op, 0, object, &ev);
	return ev.result;
}

void gr_op(struct gr_thread *self, enum gr_op op, uint64_t object)
{
	if (gr_mode == GR_MODE_RECORD)
		gr_op_log(self, op, object, 0);
	else
		gr_op_result(self, op, object);
}

long gr_op_take_mutex(struct gr_thread *self, enum gr_op op, uint64_t object, uint64_t mutex)
{
	long ret = gr_op_result(self, op, object);
	if (ret == 0 && GR_REAL(self, pthread_mutex_trylock, mutex) != 0)
		gr_panic(self, GR_PANIC_DESYNC, "the mutex at 0x%x is taken, but the demo says it was free", mutex, 0);
	return ret;
}

#define WRAP(name, version, op, doc) long gr_wrap_##name(struct gr_thread *self, struct gr_regs *frame);
#include "../tables/wrappers.def"
#undef WRAP

// From entry.S. The result goes where the ABI wants it; the frame's other registers are left as they came.
void gr_wrap_c(struct gr_regs *frame, struct gr_thread *self, unsigned which)
{
	static long (*const work[])(struct gr_thread *, struct gr_regs *) = {
#define WRAP(name, version, op, doc) gr_wrap_##name,
#include "../tables/wrappers.def"
#undef WRAP
		gr_first_operation,
		gr_exchange_operation,
	};
	if (gr_mode == GR_MODE_OFF || self->nest) {
		frame->rax = ((long (*)(long, long, long, long))gr_real[which])(frame->rdi, frame->rsi, frame->rdx, frame->rcx);
		return;
	}
	gr_show_call(self, frame);
	self->pub.state = GR_T_ENGINE;
	if (which < GR_WRAP_COUNT)
		gr_signal_enter(self, frame, gr_wrap_entries[which]);
	frame->rax = work[which](self, frame);
	if (which <= GR_WRAP_COUNT)
		gr_signal_leave(self, frame);
	else
		gr_signal_seek(self); // an exchange of heaps stands in the middle of an allocation: no place for a handler
	self->operation = NULL;
	if (gr_mode == GR_MODE_REPLAY)
		gr_gate_out(self, frame);
	self->pub.state = GR_T_RUNNING;
}
