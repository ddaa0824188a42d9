// Delivery: where a signal is held, and the operation at which it reaches the program's handler; see signal.h.
// Runs in: application threads: gr_signal_arrive in whatever was interrupted, on the engine's alternate stack.
// May call: core, log, replay.
// Owns: the signal that each thread holds.
#include "signal.h"

#include <errno.h>
#include <linux/futex.h>
#include <ucontext.h>

#include "../core/guard.h"
#include "../core/nolibc.h"
#include "../core/ops.h"
#include "../core/page.h"
#include "../core/raw.h"
#include "../log/edge.h"
#include "../log/log.h"
#include "../log/turn.h"
#include "../replay/cancel.h"
#include "../replay/gate.h"
#include "../replay/halt.h"
#include "fault.h"
#include "frame.h"
#include "loop/loop.h"
#include "preempt/preempt.h"

// ---------------------------------------------------------------- arrival
// INVARIANT(no-wait-while-held): a signal that finds its thread between the check and the call, or in a call that the
// kernel is about to issue again, ends the wait.
void gr_signal_end_wait(struct gr_context *at)
{
	uint64_t rip = at->greg[REG_RIP];
	if (rip >= (uint64_t)gr_wait_check && rip < (uint64_t)gr_wait_done) {
		at->greg[REG_RIP] = (uint64_t)gr_wait_done;
		at->greg[REG_RAX] = GR_RESTART;
	}
}

// INVARIANT(stash-not-block): a signal that is never blocked is kept here when another one is held or the program blocks it.
// As in the kernel, one of a kind.
unsigned gr_stash_place(int sig)
{
	return sig == SIGSEGV ? 0 : sig == SIGBUS ? 1 : sig == SIGSYS ? 2 : 3;
}

void gr_signal_put_back(struct gr_thread *self, int sig, const struct gr_siginfo *info)
{
	if (!(GR_SIGNALS_KEPT & GR_BIT(sig))) {
		gr_signal_requeue(sig, info);
		return;
	}
	if (self->stash.signals & GR_BIT(sig))
		return;
	self->stash.info[gr_stash_place(sig)] = *info;
	__atomic_fetch_or(&self->stash.signals, GR_BIT(sig), __ATOMIC_RELAXED);
}

// The signal is claimed before its siginfo is there: another that arrives in between finds it held.
static bool hold(struct gr_thread *self, int sig, const struct gr_siginfo *info)
{
	uint32_t none = 0;
	if (!__atomic_compare_exchange_n(&self->held, &none, sig, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		return false;
	self->held_info = *info;
	if (gr_mode == GR_MODE_RECORD) {
		gr_loop_forget(self);
		self->placed_ops = 0;
		gr_tick_arm(self, GR_TICK_PATIENCE, 0);
	}
	return true;
}

// What is held here becomes pending in the kernel again.
void gr_signal_let_go(struct gr_thread *self)
{
	for (unsigned place = 0; place < sizeof self->stash.info / sizeof *self->stash.info; place++)
		for (int sig = 1; sig < GR_SIGNALS; sig++)
			if (self->stash.signals & GR_BIT(sig) && gr_stash_place(sig) == place)
				gr_signal_requeue(sig, &self->stash.info[place]);
	self->stash.signals = 0;
	int sig = gr_signal_held(self);
	struct gr_siginfo info = self->held_info;
	__atomic_store_n(&self->held, 0, __ATOMIC_RELAXED);
	if (sig)
		gr_signal_requeue(sig, &info);
}

static bool is_ready(struct gr_thread *self)
{
	uint64_t open = self->stash.signals & ~self->sigmask;
	if (open && !gr_signal_held(self)) {
		int sig = __builtin_ctzll(open) + 1;
		if (hold(self, sig, &self->stash.info[gr_stash_place(sig)]))
			__atomic_fetch_and(&self->stash.signals, ~GR_BIT(sig), __ATOMIC_RELAXED);
	}
	return gr_signal_held(self);
}

// INVARIANT(one-is-held): a thread holds one signal; until it is delivered, the kernel keeps all others that the program
// handles, with its own rules about their order, about coalescing and about which thread takes them.
void gr_signal_arrive(int sig, siginfo_t *info, void *context)
{
	struct gr_thread *self = gr_self;
	struct gr_context *at = context;
	struct gr_siginfo what;
	memcpy(&what, info, sizeof what);
	if (!self) // a thread that is being made: its maker's library blocks signals until it is complete
		return;
	bool program = self->pub.state == GR_T_RUNNING && !gr_in_engine(at->greg[REG_RIP]);
	if (gr_mode == GR_MODE_OFF && program) { // a child of the recorded process: nothing is recorded, nothing is held
		gr_sigact_lock();
		struct gr_sigact act = gr_sigact_take(sig);
		gr_sigact_unlock();
		if (gr_sigact_runs(&act))
			gr_frame_enter(self, at, sig, &what, &act, self->sigmask, self->sigmask);
		if (!gr_sigact_ignores(&act, sig))
			gr_sigact_default(sig, &what);
		return;
	}
	if (GR_SIGNALS_KEPT & GR_BIT(sig) & self->sigmask) {
		gr_signal_end_wait(at); // sigwait may be what waits
		gr_signal_put_back(self, sig, &what);
		return;
	}
	gr_signal_end_wait(at);
	at->mask |= gr_sigact_handled & ~GR_SIGNALS_KEPT;
	if (!hold(self, sig, &what))
		gr_signal_put_back(self, sig, &what);
}

// ---------------------------------------------------------------- delivery
// What the program was doing, by what both a recording and a replay know exactly.
uint32_t gr_signal_check_of(const struct gr_context *at)
{
	static const uint8_t kept[] = {REG_RBX, REG_RBP, REG_RSP, REG_R12, REG_R13, REG_R14, REG_R15};
	uint64_t hash = GR_HASH_SEED;
	for (unsigned i = 0; i < sizeof kept; i++)
		hash = gr_hash_word(hash, at->greg[kept[i]]);
	hash ^= hash >> 32;
	return (uint32_t)hash ? (uint32_t)hash : 1;
}

void gr_signal_show(struct gr_thread *self, const struct gr_context *at, uint64_t handler)
{
	struct gr_thread_pub *pub = &self->pub;
	gr_show_context(self, at);
	pub->op = GR_OP_SIGNAL;
	pub->ret_pc = handler; // one step of a debugger leads there
}

// INVARIANT(nested-never): the engine's stack is as it was in front of the operation when a handler is entered, so a
// handler may leave by siglongjmp.
static void enter(struct gr_thread *self, const struct gr_context *at, int sig, const struct gr_siginfo *info,
		  const struct gr_sigact *act, enum gr_signal_point point, uint64_t during)
{
	if (point == GR_SIGNAL_WITHIN) {
		gr_within_run(self, at, sig, info, act);
		return;
	}
	self->stack += GR_LEVEL;
	gr_frame_enter(self, at, sig, info, act, self->sigmask, during);
}

// Returns when the held signal needs no handler any more, or is blocked by now.
static void deliver(struct gr_thread *self, const struct gr_context *at, enum gr_signal_point point, uint64_t during)
{
	int sig = self->held;
	struct gr_siginfo info = self->held_info;
	bool blocked = during & GR_BIT(sig);
	if (gr_mode == GR_MODE_RECORD && !gr_turn_on) // where threads take turns, the timer also looks at who computes
		gr_tick_arm(self, 0, 0);
	__atomic_store_n(&self->held, 0, __ATOMIC_RELAXED);
	struct gr_sigact act = {0};
	gr_sigact_lock();
	if (!blocked)
		act = gr_sigact_take(sig);
	if (!blocked && gr_sigact_runs(&act)) {
		struct gr_event ev = {
			.kind = GR_OP_SIGNAL, .nr = sig, .flags = point, .object = at->greg[REG_RIP], .check = gr_signal_check_of(at),
			.data = (const uint8_t *)&info, .len = gr_siginfo_length(&info),
		};
		gr_signal_show(self, at, act.handler);
		if (gr_mode == GR_MODE_RECORD)
			gr_log(self, &ev);
		gr_sigact_unlock();
		enter(self, at, sig, &info, &act, point, during);
		return;
	}
	gr_sigact_unlock();
	if (blocked)
		gr_signal_put_back(self, sig, &info);
	else if (!gr_sigact_ignores(&act, sig))
		gr_sigact_default(sig, &info);
	uint64_t mask = gr_mask_kernel(self);
	GR_RAW(SYS_rt_sigprocmask, SIG_SETMASK, &mask, 0, 8);
}

static void deliver_again(struct gr_thread *self, const struct gr_context *at, enum gr_signal_point point, uint64_t during)
{
	struct gr_event ev;
	if (!gr_gate_peek(self, &ev) || ev.kind != GR_OP_SIGNAL || ev.flags != point)
		return;
	int sig = ev.nr;
	const struct gr_regs before = self->pub.shown;
	self->stands = &before;
	gr_signal_show(self, at, gr_sigact_get(sig % GR_SIGNALS).handler);
	gr_gate_next(self, GR_OP_SIGNAL, sig, at->greg[REG_RIP], &ev);
	self->stands = NULL;
	if (ev.check != gr_signal_check_of(at))
		gr_gate_desync(self, &ev, GR_OP_SIGNAL, sig, at->greg[REG_RIP], "a signal in another state of the program");
	gr_sigact_lock();
	struct gr_sigact act = sig > 0 && sig < GR_SIGNALS ? gr_sigact_take(sig) : (struct gr_sigact){0};
	gr_sigact_unlock();
	if (!gr_sigact_runs(&act))
		gr_gate_desync(self, &ev, GR_OP_NONE, sig, 0, "a signal that the program does not handle here");
	struct gr_siginfo info = gr_siginfo_of(&ev);
	gr_signal_seek(self);
	enter(self, at, sig, &info, &act, point, during);
}

static void before(struct gr_thread *self, const struct gr_regs *again, bool call)
{
	if (gr_signal_none(self) || (gr_mode != GR_MODE_REPLAY && !is_ready(self)))
		return;
	struct gr_context at = gr_context_of(again);
	if (!call) // a function's fourth argument, where the kernel keeps what it needs to come back
		at.greg[REG_RCX] = again->rcx;
	if (gr_mode == GR_MODE_REPLAY)
		deliver_again(self, &at, GR_SIGNAL_BEFORE, self->sigmask);
	else
		deliver(self, &at, GR_SIGNAL_BEFORE, self->sigmask);
}

void gr_signal_before(struct gr_thread *self, const struct gr_regs *again)
{
	before(self, again, true);
}

void gr_signal_before_fault(struct gr_thread *self, const struct gr_context *at)
{
	if (gr_mode != GR_MODE_REPLAY && !is_ready(self))
		return;
	self->stack -= GR_LEVEL; // enter() gives it back
	if (gr_mode == GR_MODE_REPLAY)
		deliver_again(self, at, GR_SIGNAL_BEFORE, self->sigmask);
	else
		deliver(self, at, GR_SIGNAL_BEFORE, self->sigmask);
	self->stack += GR_LEVEL;
}

// The function is called again when the handler is done: its return address still stands where the call put it.
void gr_signal_enter(struct gr_thread *self, const struct gr_regs *frame, uint64_t entry)
{
	struct gr_regs again = *frame;
	gr_within_check(self, frame);
	self->operation = frame;
	again.rip = entry;
	again.rsp -= 8;
	before(self, &again, false);
}

void gr_signal_leave(struct gr_thread *self, const struct gr_regs *frame)
{
	if (gr_signal_none(self) || (gr_mode != GR_MODE_REPLAY && !is_ready(self)))
		return;
	struct gr_context at = gr_context_of(frame);
	at.fpstate = GR_NO_VECTORS;
	if (gr_mode == GR_MODE_REPLAY)
		deliver_again(self, &at, GR_SIGNAL_BEHIND, self->sigmask), gr_signal_seek(self);
	else
		deliver(self, &at, GR_SIGNAL_BEHIND, self->sigmask);
}

// The program as it is called the function that waits, with the result still open.
static struct gr_context within_of(const struct gr_thread *self)
{
	struct gr_context at = gr_context_of(self->operation);
	at.fpstate = GR_NO_VECTORS;
	return at;
}

// From the gate, in front of a function's second event.
void gr_signal_within(struct gr_thread *self)
{
	struct gr_event ev;
	if (gr_gate_kind(self) == GR_OP_FAULT)
		gr_inside_again(self);
	if (gr_signal_none(self))
		return;
	struct gr_thread_pub pub = self->pub;
	while (self->operation && gr_gate_peek(self, &ev) && ev.kind == GR_OP_SIGNAL && ev.flags == GR_SIGNAL_WITHIN) {
		struct gr_context at = within_of(self);
		deliver_again(self, &at, GR_SIGNAL_WITHIN, self->sigmask);
		self->pub.shown = pub.shown; // where it waits on, perhaps until the next one
		self->pub.ret_pc = pub.ret_pc;
	}
	if (self->operation)
		gr_cancel_within(self);
	if (gr_gate_kind(self) == GR_OP_FAULT)
		gr_inside_again(self);
}

static void deliver_within(struct gr_thread *self)
{
	struct gr_thread_pub pub = self->pub;
	struct gr_context at = within_of(self);
	deliver(self, &at, GR_SIGNAL_WITHIN, self->sigmask);
	self->pub.shown = pub.shown;
	self->pub.ret_pc = pub.ret_pc;
}

bool gr_signal_meanwhile(struct gr_thread *self)
{
	bool any = gr_mode == GR_MODE_RECORD && self->operation && is_ready(self);
	if (any)
		deliver_within(self);
	if (gr_mode == GR_MODE_RECORD && self->operation && self->cancel == 1)
		gr_cancel_within(self);
	return any;
}

// INVARIANT(within-has-more): a handler runs in the middle of a function only where it waits, and behind a wait there is always
// another event of the function's, in front of which a replay finds the handler. An unlock, which wakes others behind its
// only event, leaves the signal to the end of the operation; so does pthread_cond_signal, which may even wait there.
bool gr_signal_may_wait(const uint64_t arg[6])
{
	switch (arg[1] & FUTEX_CMD_MASK) {
	case FUTEX_WAIT:
	case FUTEX_WAIT_BITSET:
	case FUTEX_WAIT_REQUEUE_PI:
	case FUTEX_LOCK_PI:
	case FUTEX_LOCK_PI2:
		return true;
	}
	return false;
}

// Who has a mutex goes with the mark: the demo may hold no operation of its taker's by which to find it.
void gr_signal_block(struct gr_thread *self)
{
	struct gr_event ev = {.kind = GR_OP_BLOCK, .object = self->blocks_on, .result = self->blocks};
	if (!self->blocks)
		return;
	if (self->blocks == GR_OP_MUTEX_LOCK && gr_edge_has(ev.object))
		ev.check = 1 + (uint16_t)__atomic_load_n(gr_edge_word(ev.object), __ATOMIC_RELAXED);
	else if (self->blocks != GR_OP_MUTEX_LOCK && gr_cells)
		ev.check = gr_holder(ev.object);
	self->blocks = GR_OP_NONE;
	gr_log(self, &ev);
	gr_halt_may(self);
	self->waited = true;
}

// Does a wait that a handler has interrupted come back? Most functions of the library then wait again; sem_wait is ended.
static bool ends(const uint64_t arg[6], const struct gr_sigact *act)
{
	unsigned op = arg[1] & FUTEX_CMD_MASK;
	return (op == FUTEX_WAIT || op == FUTEX_WAIT_BITSET) && gr_sigact_runs(act) && (!(act->flags & SA_RESTART) || arg[3]);
}

long gr_signal_wait_within(struct gr_thread *self, long nr, const uint64_t arg[6], gr_wait *once)
{
	static const uint32_t none;
	bool signals = self->operation && gr_signal_may_wait(arg), leaves = signals && !self->point && self->leave;
	bool cancels = (self->point || leaves) && gr_cancel_open(self);
	if (!signals && !cancels && once == gr_wait_once)
		return GR_RAW(nr, arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]);
	for (bool waited = false;; waited = true) {
		if (signals && gr_signal_held(self)) {
			struct gr_sigact act = gr_sigact_get(self->held);
			deliver_within(self);
			if (waited && ends(arg, &act))
				return -EINTR;
		}
		long ret = once(self, nr, arg, signals ? &self->held : &none, cancels ? &self->cancel : &none);
		bool acts = cancels && (ret == GR_RESTART || ret == -EINTR) && __atomic_load_n(&self->cancel, __ATOMIC_SEQ_CST) == 1;
		if (acts && leaves)
			gr_cancel_within(self);
		else if (acts)
			return -ETIMEDOUT; // the function gives up, as if its time were up
		if (ret != GR_RESTART)
			return ret;
	}
}

void gr_signal_behind(struct gr_thread *self, const struct gr_regs *frame, const uint64_t *temporary)
{
	if (gr_signal_none(self) || (gr_mode != GR_MODE_REPLAY && !is_ready(self)))
		return;
	struct gr_context at = gr_context_of(frame);
	uint64_t during = temporary ? *temporary : self->sigmask;
	if (gr_mode == GR_MODE_REPLAY)
		deliver_again(self, &at, GR_SIGNAL_BEHIND, during), gr_signal_seek(self);
	else
		deliver(self, &at, GR_SIGNAL_BEHIND, during);
}

static void at_lock(struct gr_thread *self, const struct gr_regs *frame, enum gr_signal_point point)
{
	if (gr_signal_none(self) || (gr_mode != GR_MODE_REPLAY && !is_ready(self)))
		return;
	struct gr_context at = gr_context_of(frame);
	at.greg[REG_RCX] = (long)frame->rcx;
	at.greg[REG_R11] = (long)frame->r11;
	if (gr_mode == GR_MODE_REPLAY)
		deliver_again(self, &at, point, self->sigmask);
	else
		deliver(self, &at, point, self->sigmask);
}

void gr_signal_before_lock(struct gr_thread *self, const struct gr_regs *frame)
{
	at_lock(self, frame, GR_SIGNAL_BEFORE);
}

void gr_signal_behind_lock(struct gr_thread *self, const struct gr_regs *frame)
{
	at_lock(self, frame, GR_SIGNAL_BEHIND);
	gr_signal_seek(self);
}

void gr_signal_check(struct gr_thread *self, const struct gr_regs *frame)
{
	gr_within_check(self, frame);
	self->operation = NULL;
	is_ready(self);
}

// INVARIANT(all-before-the-next): the kernel starts the handlers of all signals that wait and may come, each in front of the first
// instruction of the one before, and when one returns it looks again, before the instruction that was interrupted.
static void next_of_many(struct gr_thread *self, const struct gr_context *at, enum gr_signal_point point)
{
	if (gr_mode == GR_MODE_REPLAY) {
		deliver_again(self, at, point, self->sigmask);
		return;
	}
	if (gr_mode != GR_MODE_RECORD || gr_closed)
		return;
	uint64_t mask = gr_mask_kernel(self);
	GR_RAW(SYS_rt_sigprocmask, SIG_SETMASK, &mask, 0, 8);
	if (is_ready(self))
		deliver(self, at, point, self->sigmask);
}

void gr_signal_on_top(struct gr_thread *self, const struct gr_context *at)
{
	self->pub.state = GR_T_ENGINE;
	self->stack -= GR_LEVEL; // enter() gives it back
	next_of_many(self, at, GR_SIGNAL_ON_TOP);
	self->stack += GR_LEVEL;
}

_Noreturn void gr_signal_return(struct gr_thread *self, struct gr_regs *frame)
{
	struct gr_context at = *(const struct gr_context *)frame->rsp;
	if (gr_mode != GR_MODE_OFF) {
		struct gr_event ev = {.kind = GR_OP_SYS_START, .nr = SYS_rt_sigreturn + 1, .check = gr_signal_check_of(&at)};
		struct gr_regs again = *frame;
		gr_show_syscall(self, frame);
		self->pub.state = GR_T_ENGINE;
		self->pub.ret_pc = at.greg[REG_RIP];
		again.rip = self->pub.shown.rip;
		gr_signal_before(self, &again);
		if (gr_mode == GR_MODE_RECORD) {
			gr_log(self, &ev);
		} else {
			uint32_t check = ev.check;
			gr_gate_next(self, GR_OP_SYS_START, SYS_rt_sigreturn + 1, 0, &ev);
			if (ev.check != check)
				gr_gate_desync(self, &ev, GR_OP_SYS_START, ev.nr, 0, "a handler that returns to another place");
			gr_signal_seek(self);
		}
	}
	self->sigmask = at.mask;
	gr_altstack_restore(self, at.greg[REG_RSP], &at.stack);
	if (gr_signal_held(self) && self->sigmask & GR_BIT(self->held)) {
		struct gr_siginfo info = self->held_info;
		int sig = self->held;
		__atomic_store_n(&self->held, 0, __ATOMIC_RELAXED);
		gr_signal_put_back(self, sig, &info);
	}
	is_ready(self);
	if (gr_within_is(self, frame->rsp))
		gr_within_back(self);
	next_of_many(self, &at, GR_SIGNAL_BEHIND);
	self->stack += GR_LEVEL;
	gr_context_resume(self, &at);
}
