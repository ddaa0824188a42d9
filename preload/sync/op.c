// Operations that carry no data; see op.h.
// Runs in: application threads, on the engine's stack.
// May call: core, log, replay.
// Owns: the way from an exported wrapper to the function that does its work.
#include "op.h"

#include <errno.h>
#include <threads.h>

#include "../core/panic.h"
#include "../digest/digest.h"
#include "../log/edge.h"
#include "../log/log.h"
#include "../log/turn.h"
#include "../replay/cancel.h"
#include "../replay/gate.h"
#include "../replay/halt.h"
#include "../signal/signal.h"

void gr_op_log(struct gr_thread *self, enum gr_op op, uint64_t object, long result)
{
	struct gr_event ev = {.kind = op, .object = object, .result = result};
	if (result == EBUSY || result == EAGAIN)
		gr_turn_in_vain(self);
	gr_digest_primitive(self, op, object);
	gr_log(self, &ev);
}

void gr_op_block(struct gr_thread *self, enum gr_op op, uint64_t object)
{
	self->blocks = op;
	self->blocks_on = object;
	gr_signal_block(self);
}

void gr_op_taken(struct gr_thread *self, enum gr_op op, uint64_t object, long result, bool alone)
{
	if (result || !gr_cells) {
		gr_op_log(self, op, object, result);
		return;
	}
	gr_digest_primitive(self, op, object);
	gr_cell_take(self, op, object, alone);
}

void gr_op_given(struct gr_thread *self, enum gr_op op, uint64_t object, enum gr_cell_word which)
{
	if (gr_mode != GR_MODE_RECORD || !gr_cells) {
		gr_op(self, op, object);
		return;
	}
	gr_digest_primitive(self, op, object);
	gr_cell_give(self, op, object, which);
}

long gr_op_result(struct gr_thread *self, enum gr_op op, uint64_t object)
{
	struct gr_event ev;
	gr_gate_next(self, op, 0, object, &ev);
	gr_digest_primitive(self, op, object);
	return ev.result;
}

void gr_op(struct gr_thread *self, enum gr_op op, uint64_t object)
{
	if (gr_mode == GR_MODE_RECORD)
		gr_op_log(self, op, object, 0);
	else
		gr_op_result(self, op, object);
}

long gr_op_outcome(struct gr_thread *self, uint64_t object, long real)
{
	struct gr_event next;
	if (gr_mode == GR_MODE_RECORD) {
		// INVARIANT(turn-at-operations): others had the turn since the stamp, so where it came back is an event too.
		if (real || (gr_turn_on && self->seat.gave))
			gr_op_log(self, GR_OP_FAILED, object, real);
		return real;
	}
	gr_gate_on_signal(self); // the library's function may have faulted
	return gr_gate_peek(self, &next) && next.kind == GR_OP_FAILED ? gr_op_result(self, GR_OP_FAILED, object) : 0;
}

long gr_op_c11(long error)
{
	switch (error) {
	case 0:
		return thrd_success;
	case ENOMEM:
		return thrd_nomem;
	case ETIMEDOUT:
		return thrd_timedout;
	case EBUSY:
		return thrd_busy;
	}
	return thrd_error;
}

// The return address still stands below the stack pointer. The way back to the program loses rcx and r11, so the
// fourth argument travels in r10.
void gr_op_jump(struct gr_regs *frame, void *function)
{
	frame->rsp -= 8;
	frame->rax = (uint64_t)function;
	frame->r10 = frame->rcx;
	frame->rip = (uint64_t)gr_jump;
}

#define WRAP(name, version, op, doc) long gr_wrap_##name(struct gr_thread *self, struct gr_regs *frame);
#include "../tables/wrappers.def"
#undef WRAP
long gr_once_finish(struct gr_thread *self, struct gr_regs *frame);
long gr_once_unwind(struct gr_thread *self, struct gr_regs *frame);
long gr_create_finish(struct gr_thread *self, struct gr_regs *frame);

static long missing(struct gr_thread *self, unsigned which)
{
	static const char *const names[] = {
#define WRAP(name, version, op, doc) #name,
#include "../tables/wrappers.def"
#undef WRAP
	};
	gr_panic(self, GR_PANIC_REFUSED, "a C library without %s", which < GR_WRAP_COUNT ? (uint64_t)names[which] : 0, 0);
}

static long (*const work[])(struct gr_thread *, struct gr_regs *) = {
#define WRAP(name, version, op, doc) gr_wrap_##name,
#include "../tables/wrappers.def"
#undef WRAP
	gr_first_operation,
	gr_exchange_operation,
	gr_once_finish,
	gr_once_unwind,
	gr_create_finish,
};

static const uint8_t ops[GR_WRAP_COUNT] = {
#define WRAP(name, version, op, doc) GR_OP_##op,
#include "../tables/wrappers.def"
#undef WRAP
};

// Does the operation log an event in any case? Only there is a place in the order to hand the turn over.
static bool has_event(unsigned which)
{
	return ops[which < GR_WRAP_COUNT ? which : 0] != GR_OP_CANCELED && which != GR_WRAP_COUNT && work[which] != gr_create_finish;
}

// In order `parallel` nobody stands (replay/halt.h) where a replay may leave the operation out, nor where the engine looks up functions
// in front of it, which a replay has done when it stands there.
static bool has_step(unsigned which)
{
	if (gr_ctl->knob[GR_KNOB_order] || which >= GR_WRAP_COUNT)
		return has_event(which);
	return has_event(which) && ops[which] != GR_OP_ONCE && ops[which] != GR_OP_CREATE;
}

static enum gr_step step_of(unsigned which)
{
	switch (which) {
	case GR_WRAP_pthread_mutex_unlock:
	case GR_WRAP_mtx_unlock:
	case GR_WRAP_pthread_spin_unlock:
	case GR_WRAP_pthread_rwlock_unlock:
		return GR_STEP_GIVES;
	default:
		return GR_STEP_LOCK;
	}
}

// INVARIANT(vectors-are-nobody's): behind a library function vector registers hold nothing. While recording it ran, on replay
// it did not, and what it left there would stay for as long as the program uses none: by it a moment in a loop is known again.
// Seen with pthread_cond_wait of glibc 2.35, where it really waits. Those of mutexes and spinlocks, which have to be quick, use no
// vector registers (glibc 2.35 and 2.36).
//
// Those of semaphores, of read-write locks and the signalling of conditions use none either, unless they wait. Where they have
// no event of their own and no mark (BLOCK), as a replay sees too, they did not.
static bool leaves_vectors(const struct gr_thread *self, unsigned which)
{
	switch (which) {
	case GR_WRAP_sem_wait:
	case GR_WRAP_sem_trywait:
	case GR_WRAP_sem_post:
	case GR_WRAP_pthread_rwlock_rdlock:
	case GR_WRAP_pthread_rwlock_tryrdlock:
	case GR_WRAP_pthread_rwlock_wrlock:
	case GR_WRAP_pthread_rwlock_trywrlock:
	case GR_WRAP_pthread_rwlock_unlock:
	case GR_WRAP_pthread_cond_signal:
	case GR_WRAP_pthread_cond_broadcast:
	case GR_WRAP_pthread_once:
		return !self->counted || self->waited;
	case GR_WRAP_pthread_mutex_lock:
	case GR_WRAP_pthread_mutex_trylock:
	case GR_WRAP_pthread_mutex_unlock:
	case GR_WRAP_pthread_spin_lock:
	case GR_WRAP_pthread_spin_trylock:
	case GR_WRAP_pthread_spin_unlock:
		return false;
	}
	return which < GR_WRAP_COUNT;
}

// XCR0, the vector state that the kernel keeps; without XSAVE that of SSE.
static uint32_t vector_state(void)
{
	uint32_t a = 1, b, c = 0, d;
	__asm__("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
	if (!(c & 1u << 27))
		return 2;
	__asm__("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
	return a;
}

static void clear_vectors(void)
{
	static uint32_t state;
	if (!state)
		state = vector_state();
	if (state & 4)
		__asm__ volatile("vzeroall");
	else
		__asm__ volatile("pxor %xmm0, %xmm0; pxor %xmm1, %xmm1; pxor %xmm2, %xmm2; pxor %xmm3, %xmm3;"
				 "pxor %xmm4, %xmm4; pxor %xmm5, %xmm5; pxor %xmm6, %xmm6; pxor %xmm7, %xmm7;"
				 "pxor %xmm8, %xmm8; pxor %xmm9, %xmm9; pxor %xmm10, %xmm10; pxor %xmm11, %xmm11;"
				 "pxor %xmm12, %xmm12; pxor %xmm13, %xmm13; pxor %xmm14, %xmm14; pxor %xmm15, %xmm15");
	if ((state & 0xe0) == 0xe0)
		__asm__ volatile("vpxorq %xmm16, %xmm16, %xmm16; vpxorq %xmm17, %xmm17, %xmm17; vpxorq %xmm18, %xmm18, %xmm18;"
				 "vpxorq %xmm19, %xmm19, %xmm19; vpxorq %xmm20, %xmm20, %xmm20; vpxorq %xmm21, %xmm21, %xmm21;"
				 "vpxorq %xmm22, %xmm22, %xmm22; vpxorq %xmm23, %xmm23, %xmm23; vpxorq %xmm24, %xmm24, %xmm24;"
				 "vpxorq %xmm25, %xmm25, %xmm25; vpxorq %xmm26, %xmm26, %xmm26; vpxorq %xmm27, %xmm27, %xmm27;"
				 "vpxorq %xmm28, %xmm28, %xmm28; vpxorq %xmm29, %xmm29, %xmm29; vpxorq %xmm30, %xmm30, %xmm30;"
				 "vpxorq %xmm31, %xmm31, %xmm31; kxorw %k0, %k0, %k0; kxorw %k1, %k1, %k1; kxorw %k2, %k2, %k2;"
				 "kxorw %k3, %k3, %k3; kxorw %k4, %k4, %k4; kxorw %k5, %k5, %k5; kxorw %k6, %k6, %k6; kxorw %k7, %k7, %k7");
}

// INVARIANT(known-on-arrival): where one thread at a time runs, or digests are taken, a primitive is known as soon as a thread comes to an operation on it,
// in a recording and in its replay: before it waits for its turn.
static void know(struct gr_thread *self, unsigned which, uint64_t object)
{
	if (which < GR_WRAP_COUNT && (gr_ctl->knob[GR_KNOB_order] || gr_digest_on()))
		gr_digest_primitive(self, ops[which], object);
}

// INVARIANT(registers-behind-a-wrapper): what a call may change has one value behind each wrapper, whichever way it went
// (entry.S has one without a frame) and whether it was recorded or replayed. So the state of a loop behind it is the same.
static void leave_result(struct gr_regs *frame, long ret, unsigned which)
{
	frame->rax = ret;
	if (which >= GR_WRAP_COUNT)
		return;
	frame->rdx = frame->rsi = frame->rdi = frame->r8 = frame->r9 = frame->r10 = 0;
	frame->eflags = (frame->eflags & ~0x8d5ULL) | (GR_WRAP_FLAGS & 0x8d5);
}

// INVARIANT(async-anywhere): a thread that may be cancelled anywhere leaves the operation where it waits, as it natively leaves the
// library's function, with the object as that is. False if it did.
static __attribute__((noinline)) bool run(struct gr_thread *self, struct gr_regs *frame, unsigned which, long *ret)
{
	struct gr_leave leave = {.outer = self->leave, .stack = self->stack, .rsp = self->program_rsp, .point = self->point};
	if (gr_cancel_open(self)) {
		if (gr_ctx_save(&leave.ctx))
			return false;
		self->leave = &leave;
	}
	*ret = work[which](self, frame);
	self->leave = leave.outer;
	return true;
}

// From entry.S. The result goes where the ABI wants it; the frame's other registers are left as they came.
void gr_wrap_c(struct gr_regs *frame, struct gr_thread *self, unsigned which)
{
	if (which < GR_WRAP_COUNT && !gr_real[which])
		missing(self, which);
	if (gr_self && !self->nest && gr_mode != GR_MODE_OFF)
		know(self, which, frame->rdi);
	if (gr_self && gr_gate_steps(self) && !self->nest && has_step(which)) {
		gr_show_call(self, frame);
		self->pub.state = GR_T_ENGINE;
		gr_gate_step(self, step_of(which));
		if (gr_closed) // meanwhile
			self->pub.state = GR_T_RUNNING;
	}
	// The engine's own entries have no function behind them: they end what was begun, also where the engine is off.
	if (which >= GR_WRAP_COUNT && (gr_mode == GR_MODE_OFF || !gr_self)) {
		frame->rax = work[which](self, frame);
		if (!gr_self)
			self->stack += GR_LEVEL; // gr_leave cannot know
		return;
	}
	if (which < GR_WRAP_COUNT && (gr_mode == GR_MODE_OFF || gr_closed || self->nest)) {
		frame->rax = ((long (*)(long, long, long, long))gr_real[which])(frame->rdi, frame->rsi, frame->rdx, frame->rcx);
		return;
	}
	uint64_t rip = frame->rip;
	self->counted = self->waited = false;
	gr_show_call(self, frame);
	self->pub.state = GR_T_ENGINE;
	if (which < GR_WRAP_COUNT)
		gr_signal_enter(self, frame, gr_wrap_entries[which]);
	long ret;
	self->leave = self->within ? self->leave : NULL; // of one that a handler has left by siglongjmp
	if (gr_cancel_acts(self, GR_CANCEL_BEFORE, false) || !run(self, frame, which, &ret))
		gr_cancel_turn(frame);
	else if (frame->rip == rip)
		leave_result(frame, ret, which);
	if (leaves_vectors(self, which))
		clear_vectors();
	self->waited = true; // for one in whose middle this one was
	if (gr_digest_on())
		gr_digest_leave(self, frame, false);
	// No place for a handler: the middle of an allocation, and the way from the engine into a function of the library.
	if (which <= GR_WRAP_COUNT && frame->rip == rip)
		gr_signal_leave(self, frame);
	else
		gr_signal_seek(self);
	self->operation = NULL;
	if (gr_mode == GR_MODE_REPLAY) {
		gr_gate_out(self, frame);
		gr_gate_quick(self);
	}
	self->pub.state = GR_T_RUNNING;
}
