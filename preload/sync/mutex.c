// Mutexes of every type, of pthreads and of C11, as operations.
// Runs in: application threads, on the engine's stack.
// May call: the library's own functions through GR_REAL.
// Owns: what a mutex looks like on replay.
#include "mutex.h"

#include <errno.h>
#include <pthread.h>

#include "../log/log.h"
#include "../replay/gate.h"

#define KIND_TYPE 3     // bits of __kind: normal, recursive, errorcheck, adaptive
#define KIND_PROTECT 64 // the bits of __lock from here on are a priority's ceiling
#define CEILING 0xfff80000
#define CEILING_SHIFT 19

// ---------------------------------------------------------------- as a debugger sees it on replay
static void set_lock(struct __pthread_mutex_s *m, int value)
{
	m->__lock = m->__kind & KIND_PROTECT ? (int)(m->__lock & CEILING) | value : value;
}

void gr_mutex_taken(struct gr_thread *self, uint64_t mutex, long ret)
{
	struct __pthread_mutex_s *m = &((pthread_mutex_t *)mutex)->__data;
	if (gr_mode != GR_MODE_REPLAY || (ret && ret != EOWNERDEAD))
		return;
	bool recursive = (m->__kind & KIND_TYPE) == PTHREAD_MUTEX_RECURSIVE_NP;
	if (recursive && m->__owner == (int)self->pub.recorded_tid && m->__count) {
		m->__count++;
		return;
	}
	set_lock(m, 1);
	m->__count = recursive;
	m->__owner = self->pub.recorded_tid;
	m->__nusers++;
}

void gr_mutex_given(uint64_t mutex, long ret)
{
	struct __pthread_mutex_s *m = &((pthread_mutex_t *)mutex)->__data;
	if (gr_mode != GR_MODE_REPLAY || ret)
		return;
	if ((m->__kind & KIND_TYPE) == PTHREAD_MUTEX_RECURSIVE_NP && m->__count > 1) {
		m->__count--;
		return;
	}
	set_lock(m, 0);
	m->__count = m->__owner = 0;
	if (m->__nusers)
		m->__nusers--;
}

// ---------------------------------------------------------------- operations
long gr_wrap_pthread_mutex_lock(struct gr_thread *self, struct gr_regs *frame)
{
	long ret = GR_TAKE_BLOCKING(self, GR_OP_MUTEX_LOCK, frame->rdi, pthread_mutex_trylock, pthread_mutex_lock, frame->rdi);
	gr_mutex_taken(self, frame->rdi, ret);
	return ret;
}

long gr_wrap_pthread_mutex_trylock(struct gr_thread *self, struct gr_regs *frame)
{
	long ret = GR_TAKE(self, GR_OP_MUTEX_TRYLOCK, frame->rdi, pthread_mutex_trylock, frame->rdi);
	gr_mutex_taken(self, frame->rdi, ret);
	return ret;
}

long gr_wrap_pthread_mutex_timedlock(struct gr_thread *self, struct gr_regs *frame)
{
	long ret = GR_TAKE_BLOCKING(self, GR_OP_MUTEX_LOCK, frame->rdi, pthread_mutex_trylock, pthread_mutex_timedlock,
				    frame->rdi, frame->rsi);
	gr_mutex_taken(self, frame->rdi, ret);
	return ret;
}

long gr_wrap_pthread_mutex_clocklock(struct gr_thread *self, struct gr_regs *frame)
{
	long ret = GR_TAKE_BLOCKING(self, GR_OP_MUTEX_LOCK, frame->rdi, pthread_mutex_trylock, pthread_mutex_clocklock,
				    frame->rdi, frame->rsi, frame->rdx);
	gr_mutex_taken(self, frame->rdi, ret);
	return ret;
}

long gr_wrap_pthread_mutex_unlock(struct gr_thread *self, struct gr_regs *frame)
{
	long ret = GR_GIVE(self, GR_OP_MUTEX_UNLOCK, frame->rdi, pthread_mutex_unlock, frame->rdi);
	gr_mutex_given(frame->rdi, ret);
	return ret;
}

long gr_wrap_pthread_mutex_consistent(struct gr_thread *self, struct gr_regs *frame)
{
	return GR_TAKE(self, GR_OP_MUTEX_STATE, frame->rdi, pthread_mutex_consistent, frame->rdi);
}

long gr_wrap_pthread_mutex_destroy(struct gr_thread *self, struct gr_regs *frame)
{
	long ret = GR_TAKE(self, GR_OP_MUTEX_STATE, frame->rdi, pthread_mutex_destroy, frame->rdi);
	if (gr_mode == GR_MODE_REPLAY && !ret)
		((pthread_mutex_t *)frame->rdi)->__data.__kind = -1; // as the library leaves it
	return ret;
}

long gr_wrap_pthread_mutex_setprioceiling(struct gr_thread *self, struct gr_regs *frame)
{
	struct gr_event ev = {.kind = GR_OP_MUTEX_STATE, .object = frame->rdi};
	int old = 0;
	if (gr_mode == GR_MODE_RECORD) {
		ev.result = GR_REAL(self, pthread_mutex_setprioceiling, frame->rdi, frame->rsi, &old);
		ev.data = (const uint8_t *)&old;
		ev.len = sizeof old;
		gr_log(self, &ev);
	} else {
		gr_gate_next(self, GR_OP_MUTEX_STATE, 0, frame->rdi, &ev);
		if (ev.len == sizeof old)
			old = *(const int *)ev.data;
		struct __pthread_mutex_s *m = &((pthread_mutex_t *)frame->rdi)->__data;
		if (!ev.result)
			m->__lock = (int)(m->__lock & ~CEILING) | (int)frame->rsi << CEILING_SHIFT;
	}
	if (!ev.result && frame->rdx)
		*(int *)frame->rdx = old;
	return ev.result;
}

// ---------------------------------------------------------------- C11: the same objects, other results
long gr_wrap_mtx_lock(struct gr_thread *self, struct gr_regs *frame)
{
	return gr_op_c11(gr_wrap_pthread_mutex_lock(self, frame));
}

long gr_wrap_mtx_trylock(struct gr_thread *self, struct gr_regs *frame)
{
	return gr_op_c11(gr_wrap_pthread_mutex_trylock(self, frame));
}

long gr_wrap_mtx_timedlock(struct gr_thread *self, struct gr_regs *frame)
{
	return gr_op_c11(gr_wrap_pthread_mutex_timedlock(self, frame));
}

long gr_wrap_mtx_unlock(struct gr_thread *self, struct gr_regs *frame)
{
	return gr_op_c11(gr_wrap_pthread_mutex_unlock(self, frame));
}

long gr_wrap_mtx_destroy(struct gr_thread *self, struct gr_regs *frame)
{
	return gr_wrap_pthread_mutex_destroy(self, frame);
}
