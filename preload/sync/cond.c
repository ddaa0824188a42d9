// pthread condition variables as operations. A wait is two: the mutex is given back, the mutex is taken again.
// Runs in: application threads, on the engine's stack.
// May call: the library's own functions through GR_REAL.
// Owns: nothing.
#include "op.h"

// On replay the condition variable itself is never touched: who wakes, and when, is the order's business.
long gr_wrap_pthread_cond_wait(struct gr_thread *self, struct gr_regs *frame)
{
	gr_op(self, GR_OP_COND_WAIT, frame->rdi);
	if (gr_mode == GR_MODE_RECORD) {
		long ret = GR_REAL(self, pthread_cond_wait, frame->rdi, frame->rsi);
		gr_op_log(self, GR_OP_COND_WOKEN, frame->rdi, ret);
		return ret;
	}
	GR_REAL(self, pthread_mutex_unlock, frame->rsi);
	return gr_op_take_mutex(self, GR_OP_COND_WOKEN, frame->rdi, frame->rsi);
}

long gr_wrap_pthread_cond_signal(struct gr_thread *self, struct gr_regs *frame)
{
	gr_op(self, GR_OP_COND_SIGNAL, frame->rdi);
	return gr_mode == GR_MODE_RECORD ? GR_REAL(self, pthread_cond_signal, frame->rdi) : 0;
}

long gr_wrap_pthread_cond_broadcast(struct gr_thread *self, struct gr_regs *frame)
{
	gr_op(self, GR_OP_COND_SIGNAL, frame->rdi);
	return gr_mode == GR_MODE_RECORD ? GR_REAL(self, pthread_cond_broadcast, frame->rdi) : 0;
}
