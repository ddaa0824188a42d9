// pthread read-write locks as operations.
// Runs in: application threads, on the engine's stack.
// May call: the library's own functions through GR_REAL.
// Owns: what a read-write lock looks like on replay.
#include <errno.h>
#include <pthread.h>

#include "../digest/digest.h"
#include "op.h"

#define READER 8 // a reader in __readers; below are the library's flags
#define READERS_MOST (1u << 30)

static void taken(struct gr_thread *self, uint64_t lock, bool writes, long ret)
{
	struct __pthread_rwlock_arch_t *l = &((pthread_rwlock_t *)lock)->__data;
	if (ret)
		return;
	gr_hold(self, lock, true);
	if (gr_mode != GR_MODE_REPLAY)
		return;
	if (writes)
		l->__cur_writer = self->pub.recorded_tid;
	else
		l->__readers += READER;
}

static void given(struct gr_thread *self, uint64_t lock, long ret)
{
	struct __pthread_rwlock_arch_t *l = &((pthread_rwlock_t *)lock)->__data;
	if (gr_mode != GR_MODE_REPLAY || ret)
		return;
	if (l->__cur_writer == (int)self->pub.recorded_tid)
		l->__cur_writer = 0;
	else if (l->__readers >= READER)
		l->__readers -= READER;
}

// ---------------------------------------------------------------- without a frame (quick.S); false: not as easy as that
bool gr_quick_pthread_rwlock_tryrdlock(struct gr_thread *self, pthread_rwlock_t *lock);
bool gr_quick_pthread_rwlock_rdlock(struct gr_thread *self, pthread_rwlock_t *lock);
bool gr_quick_pthread_rwlock_unlock(struct gr_thread *self, pthread_rwlock_t *lock);

// The library's flags are clear: no writer has the lock, had it last or waits for it, and it prefers no writers.
static bool only_read(const pthread_rwlock_t *lock, uint32_t readers)
{
	return readers % READER == 0 && readers <= READERS_MOST && !lock->__data.__flags;
}

bool gr_quick_pthread_rwlock_tryrdlock(struct gr_thread *self, pthread_rwlock_t *lock)
{
	uint32_t *word = &lock->__data.__readers, seen = __atomic_load_n(word, __ATOMIC_RELAXED);
	do {
		if (!only_read(lock, seen))
			return false;
	} while (!__atomic_compare_exchange_n(word, &seen, seen + READER, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED));
	gr_digest_primitive(self, GR_OP_RWLOCK_READ, (uint64_t)lock);
	gr_cell_take(self, GR_OP_RWLOCK_READ, (uint64_t)lock, false);
	gr_hold(self, (uint64_t)lock, true);
	return true;
}

bool gr_quick_pthread_rwlock_rdlock(struct gr_thread *self, pthread_rwlock_t *lock)
{
	return gr_quick_pthread_rwlock_tryrdlock(self, lock);
}

// Where a writer comes behind the look, the count is in the log already, and the library has to see to him.
bool gr_quick_pthread_rwlock_unlock(struct gr_thread *self, pthread_rwlock_t *lock)
{
	uint32_t *word = &lock->__data.__readers, seen = __atomic_load_n(word, __ATOMIC_RELAXED);
	if (!only_read(lock, seen) || seen < READER)
		return false;
	gr_digest_primitive(self, GR_OP_RWLOCK_UNLOCK, (uint64_t)lock);
	gr_cell_give(self, GR_OP_RWLOCK_UNLOCK, (uint64_t)lock, GR_CELL_READ);
	gr_hold(self, (uint64_t)lock, false);
	while (only_read(lock, seen))
		if (__atomic_compare_exchange_n(word, &seen, seen - READER, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
			return true;
	uint64_t rsp = self->program_rsp; // its calls come to the engine
	self->stack -= GR_LEVEL;
	self->pub.state = GR_T_ENGINE;
	GR_REAL(self, pthread_rwlock_unlock, lock);
	self->pub.state = GR_T_RUNNING;
	self->stack += GR_LEVEL;
	self->program_rsp = rsp;
	return true;
}

// ---------------------------------------------------------------- reading
long gr_wrap_pthread_rwlock_rdlock(struct gr_thread *self, struct gr_regs *frame)
{
	long ret = GR_TAKE_BLOCKING(self, GR_OP_RWLOCK_READ, frame->rdi, false, pthread_rwlock_rdlock,
				    frame->rdi);
	taken(self, frame->rdi, false, ret);
	return ret;
}

long gr_wrap_pthread_rwlock_tryrdlock(struct gr_thread *self, struct gr_regs *frame)
{
	long ret = GR_TAKE_CELL(self, GR_OP_RWLOCK_READ, frame->rdi, false, pthread_rwlock_tryrdlock);
	taken(self, frame->rdi, false, ret);
	return ret;
}

long gr_wrap_pthread_rwlock_timedrdlock(struct gr_thread *self, struct gr_regs *frame)
{
	long ret = GR_TAKE_BLOCKING(self, GR_OP_RWLOCK_READ, frame->rdi, false, pthread_rwlock_timedrdlock, frame->rdi, frame->rsi);
	taken(self, frame->rdi, false, ret);
	return ret;
}

long gr_wrap_pthread_rwlock_clockrdlock(struct gr_thread *self, struct gr_regs *frame)
{
	long ret = GR_TAKE_BLOCKING(self, GR_OP_RWLOCK_READ, frame->rdi, false, pthread_rwlock_clockrdlock, frame->rdi, frame->rsi, frame->rdx);
	taken(self, frame->rdi, false, ret);
	return ret;
}

// ---------------------------------------------------------------- writing
long gr_wrap_pthread_rwlock_wrlock(struct gr_thread *self, struct gr_regs *frame)
{
	long ret = GR_TAKE_BLOCKING(self, GR_OP_RWLOCK_WRITE, frame->rdi, true, pthread_rwlock_wrlock,
				    frame->rdi);
	taken(self, frame->rdi, true, ret);
	return ret;
}

long gr_wrap_pthread_rwlock_trywrlock(struct gr_thread *self, struct gr_regs *frame)
{
	long ret = GR_TAKE_CELL(self, GR_OP_RWLOCK_WRITE, frame->rdi, true, pthread_rwlock_trywrlock);
	taken(self, frame->rdi, true, ret);
	return ret;
}

long gr_wrap_pthread_rwlock_timedwrlock(struct gr_thread *self, struct gr_regs *frame)
{
	long ret = GR_TAKE_BLOCKING(self, GR_OP_RWLOCK_WRITE, frame->rdi, true, pthread_rwlock_timedwrlock, frame->rdi, frame->rsi);
	taken(self, frame->rdi, true, ret);
	return ret;
}

long gr_wrap_pthread_rwlock_clockwrlock(struct gr_thread *self, struct gr_regs *frame)
{
	long ret = GR_TAKE_BLOCKING(self, GR_OP_RWLOCK_WRITE, frame->rdi, true, pthread_rwlock_clockwrlock, frame->rdi, frame->rsi, frame->rdx);
	taken(self, frame->rdi, true, ret);
	return ret;
}

long gr_wrap_pthread_rwlock_unlock(struct gr_thread *self, struct gr_regs *frame)
{
	const struct __pthread_rwlock_arch_t *l = &((pthread_rwlock_t *)frame->rdi)->__data;
	bool writes = l->__cur_writer == (int)self->pub.recorded_tid;
	gr_op_given(self, GR_OP_RWLOCK_UNLOCK, frame->rdi, writes ? GR_CELL_GIVEN : GR_CELL_READ);
	gr_hold(self, frame->rdi, false);
	long ret = gr_mode == GR_MODE_RECORD ? GR_REAL(self, pthread_rwlock_unlock, frame->rdi) : 0;
	ret = gr_op_outcome(self, frame->rdi, ret);
	given(self, frame->rdi, ret);
	return ret;
}
