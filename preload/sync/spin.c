// pthread spinlocks as operations.
// Runs in: application threads, on the engine's stack.
// May call: the library's own functions through GR_REAL.
// Owns: what a spinlock looks like on replay.
#include <errno.h>

#include "../log/turn.h"
#include "op.h"

// x86: 1 is free.
static void show(uint64_t lock, int value, long ret)
{
	if (gr_mode == GR_MODE_REPLAY && !ret)
		*(volatile int *)lock = value;
}

// Where one thread at a time runs, nobody spins.
static long lock_in_turn(struct gr_thread *self, uint64_t lock)
{
	long ret = GR_REAL(self, pthread_spin_trylock, lock);
	if (ret == EBUSY)
		gr_op_block(self, GR_OP_SPIN_LOCK, lock);
	for (; ret == EBUSY; ret = GR_REAL(self, pthread_spin_trylock, lock))
		if (gr_turn_wait(self, lock, GR_WAIT_RETRY, (struct gr_limit){NULL, 0}, ~0u) == GR_WOKEN_CLOSED)
			return GR_REAL(self, pthread_spin_lock, lock);
	gr_op_log(self, GR_OP_SPIN_LOCK, lock, ret);
	return ret;
}

long gr_wrap_pthread_spin_lock(struct gr_thread *self, struct gr_regs *frame)
{
	if (gr_turn_on)
		return lock_in_turn(self, frame->rdi);
	long ret = GR_TAKE_BLOCKING(self, GR_OP_SPIN_LOCK, frame->rdi, pthread_spin_trylock, pthread_spin_lock, frame->rdi);
	show(frame->rdi, 0, ret);
	return ret;
}

long gr_wrap_pthread_spin_trylock(struct gr_thread *self, struct gr_regs *frame)
{
	long ret = GR_TAKE(self, GR_OP_SPIN_LOCK, frame->rdi, pthread_spin_trylock, frame->rdi);
	show(frame->rdi, 0, ret);
	return ret;
}

long gr_wrap_pthread_spin_unlock(struct gr_thread *self, struct gr_regs *frame)
{
	long ret = GR_GIVE(self, GR_OP_SPIN_UNLOCK, frame->rdi, pthread_spin_unlock, frame->rdi);
	if (gr_turn_on)
		gr_turn_wake(self, frame->rdi, 1, ~0u);
	show(frame->rdi, 1, ret);
	return ret;
}
