// pthread read-write locks as operations.
// Runs in: application threads, on the engine's stack.
// May call: the library's own functions through GR_REAL.
// Owns: what a read-write lock looks like on replay.
#include <errno.h>
#include <pthread.h>

#include "op.h"

#define READER 8 // a reader in __readers; below are the library's flags

static void taken(struct gr_thread *self, uint64_t lock, bool writes, long ret)
{
	struct __pthread_rwlock_arch_t *l = &((pthread_rwlock_t *)lock)->__data;
	if (gr_mode != GR_MODE_REPLAY || ret)
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

// ---------------------------------------------------------------- reading
long gr_wrap_pthread_rwlock_rdlock(struct gr_thread *self, struct gr_regs *frame)
{
	long ret = GR_TAKE_BLOCKING(self, GR_OP_RWLOCK_READ, frame->rdi, pthread_rwlock_tryrdlock, pthread_rwlock_rdlock,
				    frame->rdi);
	taken(self, frame->rdi, false, ret);
	return ret;
}

long gr_wrap_pthread_rwlock_tryrdlock(struct gr_thread *self, struct gr_regs *frame)
{
	long ret = GR_TAKE(self, GR_OP_RWLOCK_READ, frame->rdi, pthread_rwlock_tryrdlock, frame->rdi);
	taken(self, frame->rdi, false, ret);
	return ret;
}

long gr_wrap_pthread_rwlock_timedrdlock(struct gr_thread *self, struct gr_regs *frame)
{
	long ret = GR_TAKE_BLOCKING(self, GR_OP_RWLOCK_READ, frame->rdi, pthread_rwlock_tryrdlock,
				    pthread_rwlock_timedrdlock, frame->rdi, frame->rsi);
	taken(self, frame->rdi, false, ret);
	return ret;
}

long gr_wrap_pthread_rwlock_clockrdlock(struct gr_thread *self, struct gr_regs *frame)
{
	long ret = GR_TAKE_BLOCKING(self, GR_OP_RWLOCK_READ, frame->rdi, pthread_rwlock_tryrdlock,
				    pthread_rwlock_clockrdlock, frame->rdi, frame->rsi, frame->rdx);
	taken(self, frame->rdi, false, ret);
	return ret;
}

// ---------------------------------------------------------------- writing
long gr_wrap_pthread_rwlock_wrlock(struct gr_thread *self, struct gr_regs *frame)
{
	long ret = GR_TAKE_BLOCKING(self, GR_OP_RWLOCK_WRITE, frame->rdi, pthread_rwlock_trywrlock, pthread_rwlock_wrlock,
				    frame->rdi);
	taken(self, frame->rdi, true, ret);
	return ret;
}

long gr_wrap_pthread_rwlock_trywrlock(struct gr_thread *self, struct gr_regs *frame)
{
	long ret = GR_TAKE(self, GR_OP_RWLOCK_WRITE, frame->rdi, pthread_rwlock_trywrlock, frame->rdi);
	taken(self, frame->rdi, true, ret);
	return ret;
}

long gr_wrap_pthread_rwlock_timedwrlock(struct gr_thread *self, struct gr_regs *frame)
{
	long ret = GR_TAKE_BLOCKING(self, GR_OP_RWLOCK_WRITE, frame->rdi, pthread_rwlock_trywrlock,
				    pthread_rwlock_timedwrlock, frame->rdi, frame->rsi);
	taken(self, frame->rdi, true, ret);
	return ret;
}

long gr_wrap_pthread_rwlock_clockwrlock(struct gr_thread *self, struct gr_regs *frame)
{
	long ret = GR_TAKE_BLOCKING(self, GR_OP_RWLOCK_WRITE, frame->rdi, pthread_rwlock_trywrlock,
				    pthread_rwlock_clockwrlock, frame->rdi, frame->rsi, frame->rdx);
	taken(self, frame->rdi, true, ret);
	return ret;
}

long gr_wrap_pthread_rwlock_unlock(struct gr_thread *self, struct gr_regs *frame)
{
	long ret = GR_GIVE(self, GR_OP_RWLOCK_UNLOCK, frame->rdi, pthread_rwlock_unlock, frame->rdi);
	given(self, frame->rdi, ret);
	return ret;
}
