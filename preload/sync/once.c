// What happens once: pthread_once, call_once, static variables of C++, and the C library's unwinder. The engine keeps the
// protocol itself, in the library's words, because the function must run on the program's stack, outside of any operation.
// Runs in: application threads, on the engine's stack; the function between gr_wrap_pthread_once and gr_once_finish.
// May call: core, log, replay.
// Owns: the words of once controls and of guards, in recording and replay alike; the exported functions that need the unwinder.
#include "once.h"

#include <linux/futex.h>

#include "../core/panic.h"
#include "../core/raw.h"
#include "../digest/digest.h"
#include "../log/turn.h"
#include "../replay/gate.h"
#include "../signal/signal.h"
#include "../syscall/dispatch.h"
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

static uint32_t unwinder;

// What a demo calls it. The engine's own may lie elsewhere in another build.
static uint64_t name_of(const uint32_t *word)
{
	return word == &unwinder ? (uint64_t)gr_real_exit : (uint64_t)word;
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
			gr_op_block(self, GR_OP_ONCE, name_of(word));
		told = true;
		if (self && gr_mode == GR_MODE_RECORD) {
			const uint64_t wait[6] = {(uint64_t)word, FUTEX_WAIT_PRIVATE, w->busy};
			gr_signal_wait_within(self, SYS_futex, wait, gr_turn_on ? gr_nested_in_turn : gr_wait_once);
			continue;
		}
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
	uint64_t name = name_of(word);
	struct gr_event ev;
	gr_gate_on_signal(self); // a control that is not there
	if (gr_gate_ahead(self, GR_OP_BLOCK, name)) { // it waited there, perhaps until the recording ended
		gr_gate_next(self, GR_OP_BLOCK, 0, name, &ev);
		gr_gate_on_signal(self);
	}
	if (gr_gate_ahead(self, GR_OP_ONCE, name)) {
		ours = gr_op_result(self, GR_OP_ONCE, name);
	} else {
		do
			gr_gate_turn(self);
		while (!self->left && !is_done(word, w));
		if (!is_done(word, w))
			gr_panic(self, GR_PANIC_DESYNC, "what happens once at 0x%x had happened in the recording", name, 0);
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
	if (gr_mode == GR_MODE_RECORD) {
		gr_op_log(self, GR_OP_ONCE, name_of(word), ours);
		gr_digest_pass(self);
	}
	return ours;
}

// Who finds it done lies behind that: by the clock of all, or, where he is only counted, by the cell.
static void end(struct gr_thread *self, uint32_t *word, uint32_t value, enum gr_op op)
{
	if (gr_mode != GR_MODE_OFF)
		gr_op(self, op, name_of(word));
	if (gr_mode == GR_MODE_RECORD && gr_cells)
		gr_cell_mark(self, name_of(word));
	set(word, value);
}

// ---------------------------------------------------------------- pthread_once, call_once
// INVARIANT(asked-before): the first time a thread finds something done has an event, which may be missing, because a program may look
// at a flag of its own before it asks. Who asks again does so whatever his flag says, and is counted.
static uint64_t *asked(struct gr_thread *self, uint64_t control)
{
	return &self->asked.object[control / 4 % GR_ONCE_DEPTH];
}

// Without a frame (quick.S); false: not as easy as that.
bool gr_quick_pthread_once(struct gr_thread *self, uint32_t *control);

bool gr_quick_pthread_once(struct gr_thread *self, uint32_t *control)
{
	if (*asked(self, (uint64_t)control) != (uint64_t)control || !is_done(control, &once_words))
		return false;
	gr_cell_take(self, GR_OP_ONCE, name_of(control), false);
	return true;
}

// The program may have made it undone meanwhile.
static bool is_counted(struct gr_thread *self, uint64_t control)
{
	if (!gr_cells || *asked(self, control) != control)
		return false;
	return gr_mode == GR_MODE_RECORD ? is_done((uint32_t *)control, &once_words) : !gr_gate_ahead(self, GR_OP_ONCE, name_of((uint32_t *)control));
}

static void ask_again(struct gr_thread *self, uint64_t control)
{
	uint64_t name = name_of((uint32_t *)control);
	if (gr_mode == GR_MODE_RECORD)
		gr_cell_take(self, GR_OP_ONCE, name, false);
	else if (gr_op_result(self, GR_OP_ONCE, name) || !is_done((uint32_t *)control, &once_words))
		gr_panic(self, GR_PANIC_DESYNC, "what happens once at 0x%x had happened in the recording", name, 0);
}

long gr_wrap_pthread_once(struct gr_thread *self, struct gr_regs *frame)
{
	if (is_counted(self, frame->rdi)) {
		ask_again(self, frame->rdi);
		return 0;
	}
	if (!begin(self, (uint32_t *)frame->rdi, &once_words)) {
		*asked(self, frame->rdi) = frame->rdi;
		return 0;
	}
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
	uint64_t control = self->once.object[--self->once_depth];
	end(self, (uint32_t *)control, once_words.done, GR_OP_ONCE_DONE);
	*asked(self, control) = control;
	return 0;
}

long gr_once_unwind(struct gr_thread *self, struct gr_regs *frame)
{
	(void)frame;
	end(self, (uint32_t *)self->once.object[--self->once_depth], once_words.fresh, GR_OP_ONCE_ABORT);
	return 0;
}

// ---------------------------------------------------------------- the unwinder
// The C library loads it when a thread first needs it, and two that both do look at a word without a lock. So whoever comes to such
// a function sees to it before, and there is an order. Runs on the program's stack.
static void load_unwinder(void)
{
	gr_real_backtrace(NULL, 0);
}

static void need_unwinder(void)
{
	pthread_once((pthread_once_t *)&unwinder, load_unwinder);
}

// Not by their own names: a function that does not return is not left by a jump, and its frame is none of the program's.
__attribute__((visibility("default"))) void gr_pthread_exit(void *value) __asm__("pthread_exit");
__attribute__((visibility("default"))) void gr_thrd_exit(int value) __asm__("thrd_exit");
__attribute__((visibility("default"))) int gr_backtrace(void **buffer, int size) __asm__("backtrace");

void gr_pthread_exit(void *value)
{
	need_unwinder();
	gr_real_exit(value);
}

void gr_thrd_exit(int value)
{
	need_unwinder();
	gr_real_exit_c11(value);
}

int gr_backtrace(void **buffer, int size)
{
	need_unwinder();
	return gr_real_backtrace(buffer, size);
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
