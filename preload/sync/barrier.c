// pthread barriers as operations: everybody arrives, then everybody leaves, one of them as the serial thread.
// Runs in: application threads, on the engine's stack.
// May call: the library's own functions through GR_REAL.
// Owns: nothing.
#include "../replay/halt.h"
#include "op.h"

// On replay the barrier itself is not touched: nobody leaves before the last one arrived, because the stamps say so.
long gr_wrap_pthread_barrier_wait(struct gr_thread *self, struct gr_regs *frame)
{
	gr_op(self, GR_OP_BARRIER_ARRIVE, frame->rdi);
	gr_halt_may(self);
	return GR_TAKE(self, GR_OP_BARRIER_LEAVE, frame->rdi, pthread_barrier_wait, frame->rdi);
}

long gr_wrap_pthread_barrier_destroy(struct gr_thread *self, struct gr_regs *frame)
{
	return GR_TAKE(self, GR_OP_BARRIER_STATE, frame->rdi, pthread_barrier_destroy, frame->rdi);
}
