// pthread spinlocks as operations.
// Runs in: application threads, on the engine's stack.
// May call: the library's own functions through GR_REAL.
// Owns: what a spinlock looks like on replay.
#include <errno.h>

#include "../log/turn.h"
#include "../replay/cancel.h"
#include "../signal/signal.h"
#include "op.h"

#define FREE 1 // x86

static void show(struct gr_thread *self, uint64_t lock, bool taken, long ret)
{
	if (gr_mode == GR_MODE_REPLAY && !ret)
		*(volatile int *)lock = taken ? 0 : FREE;
	else if (!ret)
		gr_hold(self, lock, taken);
}

// ---------------------------------------------------------------- without a frame (quick.S); false: not as easy as that
bool gr_quick_pthread_spin_trylock(struct gr_thread *self, int *lock);
bool gr_quick_pthread_spin_lock(struct gr_thread *self, int *lock);
bool gr_quick_pthread_spin_unlock(struct gr_thread *self, int *lock);

// As the library does it: who finds the lock taken leaves it as it was, or as taken without anybody waiting.
bool gr_quick_pthread_spin_trylock(struct gr_thread *self, int *lock)
{
	if (__atomic_load_n(lock, __ATOMIC_RELAXED) != FREE || __atomic_exchange_n(lock, 0, __ATOMIC_ACQUIRE) != FREE)
		return false;
	gr_cell_take(self, GR_OP_SPIN_LOCK, (uint64_t)lock, true);
	gr_hold(self, (uint64_t)lock, true);
	return true;
}

bool gr_quick_pthread_spin_lock(struct gr_thread *self, int *lock)
{
	return gr_quick_pthread_spin_trylock(self, lock);
}

bool gr_quick_pthread_spin_unlock(struct gr_thread *self, int *lock)
{
	gr_cell_give(self, GR_OP_SPIN_UNLOCK, (uint64_t)lock, GR_CELL_GIVEN);
	gr_hold(self, (uint64_t)lock, false);
	__atomic_store_n(lock, FREE, __ATOMIC_RELEASE);
	return true;
}

// ---------------------------------------------------------------- operations

// Whoever waits does so here, where handlers run meanwhile and a cancellation ends it. Where one thread at a time runs, nobody spins.
static void await_free(struct gr_thread *self, uint64_t lock)
{
	unsigned listens = GR_WAIT_SIGNALS | (gr_cancel_open(self) ? GR_WAIT_CANCELS : 0);
	if (gr_turn_on && gr_turn_wait(self, lock, GR_WAIT_RETRY | listens, (struct gr_limit){NULL, 0}, ~0u) != GR_WOKEN_CLOSED)
		return;
	while (__atomic_load_n((int *)lock, __ATOMIC_RELAXED) != FREE && gr_signal_none(self) && self->cancel != 1)
		__builtin_ia32_pause();
}

static long lock_recorded(struct gr_thread *self, uint64_t lock)
{
	long ret = GR_REAL(self, pthread_spin_trylock, lock);
	if (ret == EBUSY)
		gr_op_block(self, GR_OP_SPIN_LOCK, lock);
	for (; ret == EBUSY; ret = GR_REAL(self, pthread_spin_trylock, lock)) {
		await_free(self, lock);
		gr_signal_meanwhile(self);
	}
	if (gr_turn_on)
		gr_op_log(self, GR_OP_SPIN_LOCK, lock, ret);
	else
		gr_op_taken(self, GR_OP_SPIN_LOCK, lock, ret, true);
	return ret;
}

long gr_wrap_pthread_spin_lock(struct gr_thread *self, struct gr_regs *frame)
{
	long ret = gr_mode == GR_MODE_RECORD ? lock_recorded(self, frame->rdi) : gr_op_result(self, GR_OP_SPIN_LOCK, frame->rdi);
	show(self, frame->rdi, true, ret);
	return ret;
}

long gr_wrap_pthread_spin_trylock(struct gr_thread *self, struct gr_regs *frame)
{
	long ret = GR_TAKE_CELL(self, GR_OP_SPIN_LOCK, frame->rdi, true, pthread_spin_trylock);
	show(self, frame->rdi, true, ret);
	return ret;
}

long gr_wrap_pthread_spin_unlock(struct gr_thread *self, struct gr_regs *frame)
{
	gr_op_given(self, GR_OP_SPIN_UNLOCK, frame->rdi, GR_CELL_GIVEN);
	show(self, frame->rdi, false, 0); // before somebody else has it
	long ret = gr_op_outcome(self, frame->rdi, gr_mode == GR_MODE_RECORD ? GR_REAL(self, pthread_spin_unlock, frame->rdi) : 0);
	if (gr_turn_on)
		gr_turn_wake(self, frame->rdi, 1, ~0u);
	return ret;
}
