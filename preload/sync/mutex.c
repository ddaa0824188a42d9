// pthread mutexes as operations.
// Runs in: application threads, on the engine's stack.
// May call: the library's own functions through GR_REAL.
// Owns: nothing.
#include <errno.h>

#include "op.h"

// INVARIANT(stamp-inside-lock): a lock is stamped after it was taken and an unlock before it is given back, so the
// stamps of one mutex's operations are in the order in which it changed hands.
long gr_wrap_pthread_mutex_lock(struct gr_thread *self, struct gr_regs *frame)
{
	if (gr_mode == GR_MODE_RECORD) {
		long ret = GR_REAL(self, pthread_mutex_lock, frame->rdi);
		gr_op_log(self, GR_OP_MUTEX_LOCK, frame->rdi, ret);
		return ret;
	}
	return gr_op_take_mutex(self, GR_OP_MUTEX_LOCK, frame->rdi, frame->rdi);
}

long gr_wrap_pthread_mutex_trylock(struct gr_thread *self, struct gr_regs *frame)
{
	if (gr_mode == GR_MODE_RECORD) {
		long ret = GR_REAL(self, pthread_mutex_trylock, frame->rdi);
		gr_op_log(self, GR_OP_MUTEX_TRYLOCK, frame->rdi, ret);
		return ret;
	}
	return gr_op_take_mutex(self, GR_OP_MUTEX_TRYLOCK, frame->rdi, frame->rdi);
}

long gr_wrap_pthread_mutex_unlock(struct gr_thread *self, struct gr_regs *frame)
{
	gr_op(self, GR_OP_MUTEX_UNLOCK, frame->rdi);
	return GR_REAL(self, pthread_mutex_unlock, frame->rdi);
}
