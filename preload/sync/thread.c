// Joining threads. Their birth and death are in the door (syscall/clone.c), where every thread passes.
// Runs in: application threads, on the engine's stack.
// May call: the library's own functions through GR_REAL.
// Owns: nothing.
#include "op.h"

// On replay the joined thread's last tick lies behind us, and the gate has seen it off: the real call does not wait.
long gr_wrap_pthread_join(struct gr_thread *self, struct gr_regs *frame)
{
	if (gr_mode == GR_MODE_RECORD) {
		long ret = GR_REAL(self, pthread_join, frame->rdi, frame->rsi);
		gr_op_log(self, GR_OP_JOIN, 0, ret);
		return ret;
	}
	long recorded = gr_op_result(self, GR_OP_JOIN, 0);
	return recorded ? recorded : GR_REAL(self, pthread_join, frame->rdi, frame->rsi);
}
