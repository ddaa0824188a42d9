// What happens once: pthread_once, call_once, and static variables of C++. The engine keeps the protocol itself, in the
// library's words, because the function must run on the program's stack, outside of any operation.
// Runs in: application threads, on the engine's stack; the function between gr_wrap_pthread_once and gr_once_finish.
// May call: core, log, replay.
// Owns: the words of once controls and of guards, in recording and replay alike.
#include "once.h"

#include <linux/futex.h>

#include "../core/panic.h"
#include "../core/raw.h"
#include "../log/turn.h"
#include "../replay/gate.h"
#include "op.h"

// Both protocols are one word with three states. A guard's `done` is its first byte, which compiled code looks at.
struct words { uint32_t fresh, busy, done; };
static const struct words once_words = {0, 1, 2};
static const struct words guard_words = {0, 0x100, 1};

static bool is_done(const uint32_t *word, const struct words *w)
{
	uint32_t now = __atomic_load_n(word, __ATOMIC_ACQUIRE);
	return w->done == 1 ? now & 1 : now == w->done;
}

static void set(uint32_t *word, uint32_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
	if (gr_turn_on)
		gr_turn_wake(gr_self, (uint64_t)word, ~0u, ~0u);
	if (gr_mode != GR_MODE_REPLAY)
		GR_RAW(SYS_futex, word, FUTEX_WAKE_PRIVATE, 0x7fffffff, 0, 0, 0);
}

// True when this thread shall do it.
static bool claim(struct gr_thread *self, uint32_t *word, const struct words *w)
{
	bool told = false;
	for (;;) {
		uint32_t now = w->fresh;
		if (is_done(word, w))
			return false;
		if (__atomic_compare_exchange_n(word, &now, w->busy, false, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE))
			return true;
		if (now != w->busy)
			continue;
		if (self && gr_mode == GR_MODE_RECORD && !told)
			gr_op_block(self, GR_OP_ONCE, (uint64_t)word);
		told = true;
		if (gr_turn_on && gr_turn_wait(gr_self, (uint64_t)word, GR_WAIT_RETRY, (struct gr_limit){NULL, 0}, ~0u) != GR_WOKEN_CLOSED)
			continue;
		GR_RAW(SYS_futex, word, FUTEX_WAIT_PRIVATE, w->busy, 0, 0, 0);
	}
}

// INVARIANT(guard-without-call): compiled code calls nothing when it finds a guard done. A thread that found it done in
// the recording may find it fresh here, because its look is no operation; then what makes it done lies before its next tick.
static bool claim_again(struct gr_thread *self, uint32_t *word, const struct words *w)
{
	bool ours = false;
	if (gr_gate_ahead(self, GR_OP_ONCE, (uint64_t)word)) {
		ours = gr_op_result(self, GR_OP_ONCE, (uint64_t)word);
	} else {
		gr_gate_turn(self);
		if (!is_done(word, w))
			gr_panic(self, GR_PANIC_DESYNC, "what happens once at 0x%x had happened in the recording", (uint64_t)word, 0);
	}
	if (ours)
		__atomic_store_n(word, w->busy, __ATOMIC_RELEASE);
	return ours;
}

static bool begin(struct gr_thread *self, uint32_t *word, const struct words *w)
{
	if (gr_mode == GR_MODE_REPLAY)
		return claim_again(self, word, w);
	bool ours = claim(self, word, w);
	if (gr_mode == GR_MODE_RECORD)
		gr_op_log(self, GR_OP_ONCE, (uint64_t)word, ours);
	return ours;
}

static void end(struct gr_thread *self, uint32_t *word, uint32_t value, enum gr_op op)
{
	if (gr_mode != GR_MODE_OFF)
		gr_op(self, op, (uint64_t)word);
	set(word, value);
}

// ---------------------------------------------------------------- pthread_once, call_once
long gr_wrap_pthread_once(struct gr_thread *self, struct gr_regs *frame)
{
	if (!begin(self, (uint32_t *)frame->rdi, &once_words))
		return 0;
	if (self->once_depth == GR_ONCE_DEPTH)
		gr_panic(self, GR_PANIC_REFUSED, "pthread_once inside of %u others", GR_ONCE_DEPTH, 0);
	self->once.object[self->once_depth++] = frame->rdi;
	gr_op_jump(frame, gr_once_run);
	return 0;
}

long gr_wrap_call_once(struct gr_thread *self, struct gr_regs *frame)
{
	return gr_wrap_pthread_once(self, frame);
}

long gr_once_finish(struct gr_thread *self, struct gr_regs *frame)
{
	(void)frame;
	end(self, (uint32_t *)self->once.object[--self->once_depth], once_words.done, GR_OP_ONCE_DONE);
	return 0;
}

long gr_once_unwind(struct gr_thread *self, struct gr_regs *frame)
{
	(void)frame;
	end(self, (uint32_t *)self->once.object[--self->once_depth], once_words.fresh, GR_OP_ONCE_ABORT);
	return 0;
}

// ---------------------------------------------------------------- guards of C++
long gr_wrap___cxa_guard_acquire(struct gr_thread *self, struct gr_regs *frame)
{
	return begin(self, (uint32_t *)frame->rdi, &guard_words);
}

long gr_wrap___cxa_guard_release(struct gr_thread *self, struct gr_regs *frame)
{
	end(self, (uint32_t *)frame->rdi, guard_words.done, GR_OP_ONCE_DONE);
	return 0;
}

long gr_wrap___cxa_guard_abort(struct gr_thread *self, struct gr_regs *frame)
{
	end(self, (uint32_t *)frame->rdi, guard_words.fresh, GR_OP_ONCE_ABORT);
	return 0;
}

// Where the engine is off, or a library's own code initialises a variable inside of an operation.
static int plain_acquire(uint32_t *word)
{
	return claim(NULL, word, &guard_words);
}

static void plain_release(uint32_t *word)
{
	set(word, guard_words.done);
}

static void plain_abort(uint32_t *word)
{
	set(word, guard_words.fresh);
}

void gr_once_init(void)
{
	gr_real[GR_WRAP___cxa_guard_acquire] = plain_acquire;
	gr_real[GR_WRAP___cxa_guard_release] = plain_release;
	gr_real[GR_WRAP___cxa_guard_abort] = plain_abort;
}
