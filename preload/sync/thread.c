// Making, joining and detaching threads, of pthreads and of C11. Birth and death are in the door (syscall/clone.c), where
// every thread passes.
// Runs in: application threads, on the engine's stack; the library makes a thread on the program's.
// May call: the library's own functions through GR_REAL; its functions for attributes.
// Owns: nothing.
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <unistd.h>

#include "../core/panic.h"
#include "../core/raw.h"
#include "../heap/stack.h"
#include "../log/edge.h"
#include "../log/log.h"
#include "../log/turn.h"
#include "../patch/bind.h"
#include "../replay/cancel.h"
#include "../replay/gate.h"
#include "op.h"

_Static_assert(sizeof(struct gr_attr) == sizeof(pthread_attr_t), "room for attributes");

// ---------------------------------------------------------------- making
static bool brings_stack(const pthread_attr_t *attr)
{
	void *low;
	size_t size;
	return !pthread_attr_getstack(attr, &low, &size) && (uint64_t)low + size != 0;
}

static uint64_t whole_pages(uint64_t bytes)
{
	return (bytes + 4095) & ~4095ULL;
}

// INVARIANT(stack-in-demo): the address of a stack is chosen once, in the recording; with it come the thread's
// descriptor, its locals and its thread-local variables.
static long choose_stack(struct gr_thread *self, pthread_attr_t *attr)
{
	struct gr_event ev = {.kind = GR_OP_CREATE};
	size_t size, guard;
	bool detached = !self->making_joinable;
	self->nest++; // as for the default attributes, where the size is theirs
	pthread_attr_getstacksize(attr, &size);
	pthread_attr_getguardsize(attr, &guard);
	self->nest--;
	size = whole_pages(size);
	guard = whole_pages(guard);
	if (gr_mode == GR_MODE_RECORD) {
		ev.object = gr_stack_take(0, size, guard, detached);
		ev.result = ev.object ? 0 : EAGAIN;
		gr_log(self, &ev);
	} else {
		gr_gate_next(self, GR_OP_CREATE, 0, 0, &ev);
		if (ev.object && gr_stack_take(ev.object, size, guard, detached) != ev.object)
			gr_panic(self, GR_PANIC_DESYNC, "no stack of %u bytes can be had at 0x%x", size, ev.object);
	}
	if (ev.object) {
		self->making = ev.object;
		pthread_attr_setstack(attr, (void *)(ev.object + guard), size);
	}
	return ev.result;
}

// INVARIANT(one-maker): while recording one thread at a time is inside the library's pthread_create, from the operation
// on; so what it takes from the allocator, it takes in the order of these operations.
static uint32_t maker; // block of the thread plus 1
static uint32_t makers; // how deep: a signal's handler may make one too

static void make_alone(struct gr_thread *self)
{
	uint32_t nobody = 0;
	if (__atomic_load_n(&maker, __ATOMIC_RELAXED) != self->block + 1)
		for (; !__atomic_compare_exchange_n(&maker, &nobody, self->block + 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED); nobody = 0)
			if (!gr_turn_on || gr_turn_wait(self, (uint64_t)&maker, GR_WAIT_RETRY, (struct gr_limit){NULL, 0}, ~0u) == GR_WOKEN_CLOSED)
				GR_RAW(SYS_futex, &maker, FUTEX_WAIT_PRIVATE, nobody, 0, 0, 0);
	makers++;
}

static void make_done(struct gr_thread *self)
{
	if (--makers)
		return;
	__atomic_store_n(&maker, 0, __ATOMIC_RELEASE);
	if (gr_turn_on)
		gr_turn_wake(self, (uint64_t)&maker, ~0u, ~0u);
	GR_RAW(SYS_futex, &maker, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
}

// The library's lock in there is taken for the engine, whose registers are its own: no operation of the program.
static void default_attr(struct gr_thread *self, pthread_attr_t *attr)
{
	self->nest++;
	pthread_getattr_default_np(attr);
	self->nest--;
}

static long create(struct gr_thread *self, struct gr_regs *frame, const pthread_attr_t *given)
{
	pthread_attr_t *attr = (pthread_attr_t *)&self->attr;
	int detached;
	long ret = 0;
	if (!gr_ctl->knob[GR_KNOB_order]) // else one thread at a time makes its first calls, in the order of operations
		gr_bind_all(self);
	if (given)
		*attr = *given;
	if (gr_mode == GR_MODE_RECORD)
		make_alone(self);
	if (!given)
		default_attr(self, attr);
	pthread_attr_getdetachstate(attr, &detached);
	self->making_joinable = detached == PTHREAD_CREATE_JOINABLE;
	if (brings_stack(attr))
		gr_op(self, GR_OP_CREATE, 0);
	else
		ret = choose_stack(self, attr);
	if (ret) {
		if (gr_mode == GR_MODE_RECORD)
			make_done(self);
		return ret;
	}
	frame->rsi = (uint64_t)attr;
	gr_op_jump(frame, gr_real[GR_WRAP_pthread_create]);
	frame->rip = (uint64_t)gr_create_run;
	return 0;
}

// Behind the library's function: rdi is its result.
long gr_create_finish(struct gr_thread *self, struct gr_regs *frame)
{
	long ret = (int)frame->rdi;
	if (self->making) // it was refused before it came to the door
		gr_stack_back(self->making);
	self->making = 0;
	if (self->made_in_vain && gr_mode == GR_MODE_RECORD)
		gr_edge_rest(self); // INVARIANT(ended-before-freed)
	self->made = NULL;
	self->made_in_vain = false;
	self->making_joinable = false; // threads that the library makes for itself are not
	if (gr_mode == GR_MODE_RECORD)
		make_done(self);
	return self->making_c11 ? gr_op_c11(ret) : ret;
}

long gr_wrap_pthread_create(struct gr_thread *self, struct gr_regs *frame)
{
	self->making_c11 = 0;
	return create(self, frame, (const pthread_attr_t *)frame->rsi);
}

// A C11 thread's result is an int, which thrd_join takes from the low half of the pointer that a pthread has.
long gr_wrap_thrd_create(struct gr_thread *self, struct gr_regs *frame)
{
	self->making_c11 = 1;
	frame->rcx = frame->rdx;
	frame->rdx = frame->rsi;
	long ret = create(self, frame, NULL);
	return ret ? gr_op_c11(ret) : 0;
}

static bool is_detached(uint64_t descriptor)
{
	const struct gr_thread *t = gr_thread_by_descriptor(descriptor);
	return t && t->detached;
}

// For the library the engine's stacks are the program's own, without a guard, and it learns late who is detached. No operation:
// nobody but the thread itself changes what is asked for. Runs on the program's stack.
__attribute__((visibility("default"))) int pthread_getattr_np(pthread_t thread, pthread_attr_t *attr)
{
	void *low;
	size_t size;
	int ret = gr_real_getattr(thread, attr);
	uint64_t guard = ret || pthread_attr_getstack(attr, &low, &size) ? 0 : gr_stack_guard((uint64_t)low);
	if (guard)
		pthread_attr_setguardsize(attr, guard);
	if (!ret && is_detached(thread))
		pthread_attr_setdetachstate(attr, PTHREAD_CREATE_DETACHED);
	return ret;
}

// ---------------------------------------------------------------- joining
// On replay the joined thread's last tick lies behind us, and the gate has seen it off: the real call does not wait.
static long joined(struct gr_thread *self, struct gr_regs *frame, void **result, long ret)
{
	if (!ret && gr_mode == GR_MODE_REPLAY && GR_REAL(self, pthread_tryjoin_np, frame->rdi, result))
		gr_panic(self, GR_PANIC_DESYNC, "the thread at 0x%x cannot be joined here", frame->rdi, 0);
	if (!ret)
		gr_stack_back(frame->rdi);
	else if (ret == ETIMEDOUT && gr_cancel_acts(self, GR_CANCEL_BEHIND, true))
		gr_cancel_turn(frame);
	return ret;
}

#define JOIN(self, frame, result, name, ...) \
	({ \
		long join_ret; \
		if (gr_cancel_acts(self, GR_CANCEL_BEFORE, true)) { \
			gr_cancel_turn(frame); \
			return 0; \
		} \
		if (gr_mode == GR_MODE_RECORD) { \
			if (is_detached((frame)->rdi)) { \
				join_ret = EINVAL; \
			} else { \
				(self)->point++; \
				join_ret = GR_REAL_BLOCKING(self, GR_OP_JOIN, (frame)->rdi, name, (frame)->rdi, result, ##__VA_ARGS__); \
				(self)->point--; \
			} \
			gr_op_log(self, GR_OP_JOIN, (frame)->rdi, join_ret); \
		} else { \
			join_ret = gr_op_result(self, GR_OP_JOIN, (frame)->rdi); \
		} \
		joined(self, frame, result, join_ret); \
	})

long gr_wrap_pthread_join(struct gr_thread *self, struct gr_regs *frame)
{
	return JOIN(self, frame, (void **)frame->rsi, pthread_join);
}

long gr_wrap_pthread_timedjoin_np(struct gr_thread *self, struct gr_regs *frame)
{
	return JOIN(self, frame, (void **)frame->rsi, pthread_timedjoin_np, frame->rdx);
}

long gr_wrap_pthread_clockjoin_np(struct gr_thread *self, struct gr_regs *frame)
{
	return JOIN(self, frame, (void **)frame->rsi, pthread_clockjoin_np, frame->rdx, frame->rcx);
}

long gr_wrap_pthread_tryjoin_np(struct gr_thread *self, struct gr_regs *frame)
{
	long ret = gr_mode == GR_MODE_REPLAY ? gr_op_result(self, GR_OP_JOIN, frame->rdi)
					     : GR_REAL(self, pthread_tryjoin_np, frame->rdi, frame->rsi);
	if (gr_mode == GR_MODE_RECORD)
		gr_op_log(self, GR_OP_JOIN, frame->rdi, ret);
	return joined(self, frame, (void **)frame->rsi, ret);
}

long gr_wrap_thrd_join(struct gr_thread *self, struct gr_regs *frame)
{
	void *result = NULL;
	long ret = JOIN(self, frame, &result, pthread_join);
	if (!ret && frame->rsi)
		*(int *)frame->rsi = (int)(long)result;
	return gr_op_c11(ret);
}

// ---------------------------------------------------------------- detaching
long gr_wrap_pthread_detach(struct gr_thread *self, struct gr_regs *frame)
{
	if (gr_mode == GR_MODE_RECORD)
		gr_latch(&gr_thread_ending);
	gr_op(self, GR_OP_DETACH, frame->rdi);
	struct gr_thread *t = gr_thread_by_descriptor(frame->rdi);
	bool joinable = t && t->detached == GR_JOINABLE;
	if (joinable)
		t->detached = GR_DETACHED;
	if (gr_mode == GR_MODE_RECORD)
		gr_unlatch(&gr_thread_ending);
	if (t && !joinable)
		return EINVAL;
	long ret = t ? 0 : gr_op_outcome(self, frame->rdi, GR_REAL(self, pthread_detach, frame->rdi));
	if (!ret)
		gr_stack_detached(frame->rdi);
	return ret;
}

long gr_wrap_thrd_detach(struct gr_thread *self, struct gr_regs *frame)
{
	return gr_op_c11(gr_wrap_pthread_detach(self, frame));
}

// ---------------------------------------------------------------- cancelling
// A thread that has ended is not there any more, which is no error.
long gr_wrap_pthread_cancel(struct gr_thread *self, struct gr_regs *frame)
{
	gr_op(self, GR_OP_CANCEL, frame->rdi);
	struct gr_thread *t = gr_thread_by_descriptor(frame->rdi);
	if (t)
		gr_cancel_ask(t);
	if (t == self && gr_cancel_acts(self, GR_CANCEL_BEHIND, false))
		gr_cancel_turn(frame);
	return 0;
}

// Who cancels itself, and may be anywhere, does not come back.
long gr_wrap_pthread_setcancelstate(struct gr_thread *self, struct gr_regs *frame)
{
	long ret = GR_REAL(self, pthread_setcancelstate, frame->rdi, frame->rsi);
	if (gr_cancel_acts(self, GR_CANCEL_CHANGE, false))
		gr_cancel_turn(frame);
	return ret;
}

long gr_wrap_pthread_setcanceltype(struct gr_thread *self, struct gr_regs *frame)
{
	long ret = GR_REAL(self, pthread_setcanceltype, frame->rdi, frame->rsi);
	if (gr_cancel_acts(self, GR_CANCEL_CHANGE, false))
		gr_cancel_turn(frame);
	return ret;
}

long gr_wrap_pthread_testcancel(struct gr_thread *self, struct gr_regs *frame)
{
	if (gr_cancel_acts(self, GR_CANCEL_TEST, true))
		gr_cancel_turn(frame);
	return 0;
}
