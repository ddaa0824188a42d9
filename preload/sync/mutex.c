// Mutexes of every type, of pthreads and of C11, as operations.
// Runs in: application threads, on the engine's stack.
// May call: the library's own functions through GR_REAL.
// Owns: what a mutex looks like on replay.
#include "mutex.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>

#include "../core/raw.h"
#include "../digest/digest.h"
#include "../log/edge.h"
#include "../log/log.h"
#include "../log/turn.h"
#include "../replay/gate.h"
#include "../replay/halt.h"

#define KIND_TYPE 3     // bits of __kind: normal, recursive, errorcheck, adaptive
#define KIND_COUNTS 112 // robust, inherits or protects: the library counts to 1 and leaves that there
#define KIND_INHERITS 32
#define KIND_PROTECT 64 // the bits of __lock from here on are a priority's ceiling
#define CEILING 0xfff80000
#define CEILING_SHIFT 19
#define INCONSISTENT 0x7fffffff   // glibc's own owners of robust mutexes: its owner died while he held it,
#define NOT_RECOVERABLE 0x7ffffffe // and it was given back as it was

// ---------------------------------------------------------------- as a debugger sees it on replay
static void set_lock(struct __pthread_mutex_s *m, int value)
{
	m->__lock = m->__kind & KIND_PROTECT ? (int)(m->__lock & CEILING) | value : value;
}

void gr_mutex_taken(struct gr_thread *self, uint64_t mutex, long ret)
{
	struct __pthread_mutex_s *m = &((pthread_mutex_t *)mutex)->__data;
	if (gr_mode == GR_MODE_REPLAY && ret == ENOTRECOVERABLE)
		m->__count = 0; // it was taken, looked at and given back
	if (gr_mode != GR_MODE_REPLAY || (ret && ret != EOWNERDEAD))
		return;
	bool recursive = (m->__kind & KIND_TYPE) == PTHREAD_MUTEX_RECURSIVE_NP;
	if (gr_edge_has(mutex))
		*gr_edge_word(mutex) = self->word;
	if (ret == EOWNERDEAD) { // the dead one is still among its users
		set_lock(m, 1);
		m->__count = 1;
		m->__owner = INCONSISTENT;
		return;
	}
	if (recursive && m->__count && (m->__owner == (int)self->pub.recorded_tid || m->__owner == INCONSISTENT)) {
		m->__count++;
		return;
	}
	set_lock(m, 1);
	if (recursive || m->__kind & KIND_COUNTS)
		m->__count = 1;
	m->__owner = self->pub.recorded_tid;
	m->__nusers++;
}

void gr_mutex_given(uint64_t mutex, long ret)
{
	struct __pthread_mutex_s *m = &((pthread_mutex_t *)mutex)->__data;
	if (gr_mode != GR_MODE_REPLAY || ret)
		return;
	if ((m->__kind & KIND_TYPE) == PTHREAD_MUTEX_RECURSIVE_NP && m->__count && --m->__count)
		return;
	set_lock(m, 0);
	m->__owner = m->__owner == INCONSISTENT ? NOT_RECOVERABLE : 0;
	if (m->__nusers)
		m->__nusers--;
}

// ---------------------------------------------------------------- in the log
static void log_op(struct gr_thread *self, enum gr_op op, uint64_t mutex, long ret)
{
	if (ret || !gr_edge_has(mutex)) {
		gr_op_log(self, op, mutex, ret);
		return;
	}
	gr_digest_primitive(self, op, mutex);
	gr_edge_log(self, op, mutex);
}

// From quick.S, where this is more than one more of a run: the mutex is held. INVARIANT(known-on-arrival): a thread's first operation on
// a mutex comes here, because the word is not its own.
void gr_mutex_edge(struct gr_thread *self, uint64_t mutex, enum gr_op op)
{
	if (gr_turn_on)
		gr_digest_primitive(self, op, mutex);
	gr_edge_log(self, op, mutex);
}

// The same, where others waited for the mutex that was given back. In turns they wait in the engine.
void gr_mutex_wake(uint32_t *lock)
{
	if (!gr_turn_on || !gr_turn_wake(gr_self, (uint64_t)lock, 1, ~0u))
		GR_RAW(SYS_futex, lock, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
}

#define LOCK(self, mutex, name, ...) \
	({ \
		long lock_ret; \
		if (gr_mode == GR_MODE_RECORD) { \
			lock_ret = GR_REAL_BLOCKING(self, GR_OP_MUTEX_LOCK, mutex, name, mutex, ##__VA_ARGS__); \
			log_op(self, GR_OP_MUTEX_LOCK, mutex, lock_ret); \
		} else { \
			lock_ret = gr_op_result(self, GR_OP_MUTEX_LOCK, mutex); \
		} \
		gr_mutex_taken(self, mutex, lock_ret); \
		lock_ret; \
	})

// ---------------------------------------------------------------- operations
long gr_wrap_pthread_mutex_lock(struct gr_thread *self, struct gr_regs *frame)
{
	return LOCK(self, frame->rdi, pthread_mutex_lock);
}

long gr_wrap_pthread_mutex_trylock(struct gr_thread *self, struct gr_regs *frame)
{
	long ret;
	if (gr_mode == GR_MODE_RECORD) {
		ret = GR_REAL(self, pthread_mutex_trylock, frame->rdi);
		log_op(self, GR_OP_MUTEX_TRYLOCK, frame->rdi, ret);
	} else {
		ret = gr_op_result(self, GR_OP_MUTEX_TRYLOCK, frame->rdi);
		struct __pthread_mutex_s *m = &((pthread_mutex_t *)frame->rdi)->__data;
		if (ret == ENOTRECOVERABLE && !(m->__kind & KIND_INHERITS))
			set_lock(m, 1); // the library's trylock leaves it taken (glibc 2.35 and 2.36), where its lock gives it back
	}
	gr_mutex_taken(self, frame->rdi, ret);
	return ret;
}

long gr_wrap_pthread_mutex_timedlock(struct gr_thread *self, struct gr_regs *frame)
{
	return LOCK(self, frame->rdi, pthread_mutex_timedlock, frame->rsi);
}

long gr_wrap_pthread_mutex_clocklock(struct gr_thread *self, struct gr_regs *frame)
{
	return LOCK(self, frame->rdi, pthread_mutex_clocklock, frame->rsi, frame->rdx);
}

// Does the library let this thread give it back?
static bool may_give(const struct gr_thread *self, uint64_t mutex)
{
	const struct __pthread_mutex_s *m = &((const pthread_mutex_t *)mutex)->__data;
	int type = m->__kind & KIND_TYPE;
	bool anybody = type != PTHREAD_MUTEX_RECURSIVE_NP && type != PTHREAD_MUTEX_ERRORCHECK_NP;
	return anybody || m->__owner == (int)self->pub.recorded_tid;
}

long gr_wrap_pthread_mutex_unlock(struct gr_thread *self, struct gr_regs *frame)
{
	uint64_t mutex = frame->rdi;
	long ret = 0;
	bool edge = gr_edge_has(mutex) && may_give(self, mutex);
	if (gr_mode == GR_MODE_RECORD && edge) {
		log_op(self, GR_OP_MUTEX_UNLOCK, mutex, 0);
	} else {
		gr_op(self, GR_OP_MUTEX_UNLOCK, mutex);
		if (edge)
			*gr_edge_word(mutex) = self->word;
	}
	ret = gr_op_outcome(self, mutex, gr_mode == GR_MODE_RECORD ? GR_REAL(self, pthread_mutex_unlock, mutex) : 0);
	gr_mutex_given(mutex, ret);
	return ret;
}

long gr_wrap_pthread_mutex_consistent(struct gr_thread *self, struct gr_regs *frame)
{
	long ret = GR_TAKE(self, GR_OP_MUTEX_STATE, frame->rdi, pthread_mutex_consistent, frame->rdi);
	if (gr_mode == GR_MODE_REPLAY && !ret)
		((pthread_mutex_t *)frame->rdi)->__data.__owner = self->pub.recorded_tid;
	return ret;
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
