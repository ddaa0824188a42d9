// The exchange between a heap and the pool as an operation.
// Runs in: application threads, on the engine's stack.
// May call: heap, log, replay.
// Owns: nothing.
#include "../heap/pool.h"
#include "op.h"

// INVARIANT(exchange-under-lock): stamped while the pool is locked, so stamps are in the order of the exchanges.
long gr_exchange_operation(struct gr_thread *self, struct gr_regs *frame)
{
	struct gr_exchange *exchange = (struct gr_exchange *)frame->rdi;
	if (gr_mode == GR_MODE_RECORD) {
		gr_pool_lock();
		gr_pool_exchange(exchange);
		gr_op_log(self, GR_OP_HEAP, 0, 0);
		gr_pool_unlock();
	} else {
		gr_op(self, GR_OP_HEAP, 0);
		gr_pool_exchange(exchange);
	}
	return frame->rax;
}
