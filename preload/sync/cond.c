// Condition variables, of pthreads and of C11, as operations. A wait is two: the mutex is given back, the mutex is taken
// again.
// Runs in: application threads, on the engine's stack.
// May call: the library's own functions through GR_REAL.
// Owns: nothing.
#include <errno.h>

#include "../digest/digest.h"
#include "../log/edge.h"
#include "../log/log.h"
#include "../replay/cancel.h"
#include "../replay/gate.h"
#include "../replay/halt.h"
#include "mutex.h"

// On replay the condition variable itself is never touched: who wakes, and when, is the order's business. As with the library, who
// waits stays one of the mutex's users.
static long wait_again(struct gr_thread *self, const struct gr_regs *frame)
{
	struct gr_event next;
	gr_op_result(self, GR_OP_COND_WAIT, frame->rdi);
	unsigned *users = &((pthread_mutex_t *)frame->rsi)->__data.__nusers, stays = *users;
	gr_edge_mark(self, frame->rsi);
	bool kept = gr_gate_peek(self, &next) && (next.result == EPERM || next.result == EINVAL); // so was the mutex
	if (!kept)
		gr_mutex_given(frame->rsi, 0);
	stays -= *users;
	*users += stays;
	long ret = gr_op_result(self, GR_OP_COND_WOKEN, frame->rdi);
	*users -= stays;
	if (!kept)
		gr_mutex_taken(self, frame->rsi, ret == ETIMEDOUT ? 0 : ret);
	else
		gr_edge_mark(self, frame->rsi);
	return ret;
}

// The mutex changes hands as well: what this thread did with it comes before, what others did meanwhile behind.
static void wait_logged(struct gr_thread *self, const struct gr_regs *frame)
{
	gr_op_log(self, GR_OP_COND_WAIT, frame->rdi, frame->rsi);
	gr_halt_may(self);
	gr_edge_mark(self, frame->rsi);
}

static void woken_logged(struct gr_thread *self, const struct gr_regs *frame, long ret)
{
	struct gr_event ev = {.kind = GR_OP_COND_WOKEN, .object = frame->rdi, .result = ret};
	gr_digest_primitive(self, GR_OP_COND_WOKEN, frame->rdi);
	gr_log_behind(self, &ev, gr_edge_stamp(self, frame->rsi));
	gr_edge_mark(self, frame->rsi);
}

// A wait that is given up for a cancellation ends as if its time were up: the thread has its mutex again, as its cleanup
// handlers expect.
#define WAIT(self, frame, name, ...) \
	({ \
		long wait_ret = 0; \
		if (gr_cancel_acts(self, GR_CANCEL_BEFORE, true)) { \
			gr_cancel_turn(frame); \
			return 0; \
		} \
		if (gr_mode == GR_MODE_RECORD) { \
			wait_logged(self, frame); \
			(self)->point++; \
			wait_ret = GR_REAL(self, name, ##__VA_ARGS__); \
			(self)->point--; \
			woken_logged(self, frame, wait_ret); \
		} else { \
			wait_ret = wait_again(self, frame); \
		} \
		if (wait_ret == ETIMEDOUT && gr_cancel_acts(self, GR_CANCEL_BEHIND, true)) \
			gr_cancel_turn(frame); \
		wait_ret; \
	})

long gr_wrap_pthread_cond_wait(struct gr_thread *self, struct gr_regs *frame)
{
	return WAIT(self, frame, pthread_cond_wait, frame->rdi, frame->rsi);
}

long gr_wrap_pthread_cond_timedwait(struct gr_thread *self, struct gr_regs *frame)
{
	return WAIT(self, frame, pthread_cond_timedwait, frame->rdi, frame->rsi, frame->rdx);
}

long gr_wrap_pthread_cond_clockwait(struct gr_thread *self, struct gr_regs *frame)
{
	return WAIT(self, frame, pthread_cond_clockwait, frame->rdi, frame->rsi, frame->rdx, frame->rcx);
}

// Without a frame (quick.S): nobody waits, which the library finds out in the same way, and nothing depends on it.
bool gr_quick_pthread_cond_signal(struct gr_thread *self, pthread_cond_t *cond);
bool gr_quick_pthread_cond_broadcast(struct gr_thread *self, pthread_cond_t *cond);

#define WAITER 8 // in __wrefs; below are the library's flags

bool gr_quick_pthread_cond_signal(struct gr_thread *self, pthread_cond_t *cond)
{
	if (__atomic_load_n(&cond->__data.__wrefs, __ATOMIC_RELAXED) >= WAITER)
		return false;
	gr_digest_primitive(self, GR_OP_COND_SIGNAL, (uint64_t)cond);
	gr_cell_count(self, GR_OP_COND_SIGNAL, (uint64_t)cond);
	return true;
}

bool gr_quick_pthread_cond_broadcast(struct gr_thread *self, pthread_cond_t *cond)
{
	return gr_quick_pthread_cond_signal(self, cond);
}

// The library waits in it for threads that were woken before and have not gone yet, behind the only event: no place for a
// handler, see INVARIANT(within-has-more).
#define GIVE(self, frame, name) \
	({ \
		const struct gr_regs *operation = (self)->operation; \
		(self)->operation = NULL; \
		long give_ret = GR_GIVE(self, GR_OP_COND_SIGNAL, (frame)->rdi, name, (frame)->rdi); \
		(self)->operation = operation; \
		give_ret; \
	})

long gr_wrap_pthread_cond_signal(struct gr_thread *self, struct gr_regs *frame)
{
	return GIVE(self, frame, pthread_cond_signal);
}

long gr_wrap_pthread_cond_broadcast(struct gr_thread *self, struct gr_regs *frame)
{
	return GIVE(self, frame, pthread_cond_broadcast);
}

long gr_wrap_pthread_cond_destroy(struct gr_thread *self, struct gr_regs *frame)
{
	return GR_TAKE(self, GR_OP_COND_STATE, frame->rdi, pthread_cond_destroy, frame->rdi);
}

// ---------------------------------------------------------------- C11
long gr_wrap_cnd_wait(struct gr_thread *self, struct gr_regs *frame)
{
	return gr_op_c11(gr_wrap_pthread_cond_wait(self, frame));
}

long gr_wrap_cnd_timedwait(struct gr_thread *self, struct gr_regs *frame)
{
	return gr_op_c11(gr_wrap_pthread_cond_timedwait(self, frame));
}

long gr_wrap_cnd_signal(struct gr_thread *self, struct gr_regs *frame)
{
	return gr_op_c11(gr_wrap_pthread_cond_signal(self, frame));
}

long gr_wrap_cnd_broadcast(struct gr_thread *self, struct gr_regs *frame)
{
	return gr_op_c11(gr_wrap_pthread_cond_broadcast(self, frame));
}

long gr_wrap_cnd_destroy(struct gr_thread *self, struct gr_regs *frame)
{
	return gr_wrap_pthread_cond_destroy(self, frame);
}
