// Faults of the program's own instructions, SIGTRAP, and what is set up for the process and for each thread.
// Runs in: the engine's handlers, on their stack; the constructor; threads at their birth.
// May call: core, log, replay.
// Owns: the kernel's actions for SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGTRAP.
#include "../core/copy.h"
#include "../core/guard.h"
#include "../core/nolibc.h"
#include "../core/ops.h"
#include "../core/page.h"
#include "../core/raw.h"
#include "../log/log.h"
#include "../patch/locks.h"
#include "../replay/cancel.h"
#include "../replay/gate.h"
#include "fault.h"
#include "preempt/preempt.h"
#include "tsc/tsc.h"

// ---------------------------------------------------------------- faults
static void die(int sig, siginfo_t *info, bool own)
{
	const struct gr_sigact dfl = {0};
	GR_RAW(SYS_rt_sigaction, sig, &dfl, 0, 8);
	if (!own) {
		struct gr_siginfo what;
		memcpy(&what, info, sizeof what);
		gr_signal_requeue(sig, &what);
	}
}

void gr_fault_die(struct gr_thread *self, int sig, const struct gr_siginfo *info)
{
	const struct gr_sigact dfl = {0};
	uint64_t open = GR_BIT(sig);
	(void)self;
	GR_RAW(SYS_rt_sigaction, sig, &dfl, 0, 8);
	GR_RAW(SYS_rt_sigprocmask, SIG_UNBLOCK, &open, 0, 8);
	gr_signal_requeue(sig, info);
}

// A fault of the program's own instruction recurs on replay by itself; the tick says when. One that nobody handles is the
// thread's last operation: behind it the default action takes its course.
static void fault_of_program(struct gr_thread *self, int sig, siginfo_t *info, struct gr_context *at)
{
	struct gr_event ev = {.kind = GR_OP_FAULT, .nr = sig, .object = (uint64_t)info->si_addr};
	uint64_t object = ev.object;
	struct gr_siginfo what;
	struct gr_sigact act = {0};
	memcpy(&what, info, sizeof what);
	if (gr_mode != GR_MODE_OFF) {
		gr_show_context(self, at);
		self->pub.op = GR_OP_FAULT;
		self->pub.state = GR_T_ENGINE;
		self->pub.ret_pc = 0;
	}
	if (gr_mode == GR_MODE_REPLAY)
		gr_gate_next(self, GR_OP_FAULT, sig, object, &ev);
	gr_sigact_lock();
	if (!(self->sigmask & GR_BIT(sig)))
		act = gr_sigact_take(sig);
	bool handled = gr_sigact_runs(&act);
	if (gr_mode == GR_MODE_RECORD) {
		ev.result = handled;
		ev.data = handled ? (const uint8_t *)&what : NULL;
		ev.len = handled ? gr_siginfo_length(&what) : 0;
		gr_log(self, &ev);
	}
	gr_sigact_unlock();
	if (gr_mode == GR_MODE_REPLAY) {
		if (ev.result != handled)
			gr_gate_desync(self, &ev, GR_OP_FAULT, sig, object, "a fault that is handled otherwise");
		what = handled ? gr_siginfo_of(&ev) : what;
		if (!handled)
			gr_gate_behind(self);
		gr_signal_seek(self);
	}
	if (handled)
		gr_frame_enter(self, at, sig, &what, &act, self->sigmask, self->sigmask);
	die(sig, info, sig != SIGTRAP); // behind an int3 nothing recurs
}

// A lock inside the C library, on replay: the thread goes on in the engine, as if the instruction had been a jump there.
static bool lock_trapped(struct gr_context *at)
{
	const struct gr_lock *lock = gr_mode == GR_MODE_REPLAY ? gr_lock_at(at->greg[REG_RIP]) : NULL;
	if (!lock)
		return false;
	gr_lock_rcx = at->greg[REG_RCX];
	gr_lock_r11 = at->greg[REG_R11];
	at->greg[REG_RCX] = at->greg[REG_RIP];
	at->greg[REG_RIP] = (uint64_t)gr_lock_trapped;
	return true;
}

static void fault(int sig, siginfo_t *info, void *context)
{
	struct gr_thread *self = gr_self;
	struct gr_context *at = context;
	bool own = info->si_code > 0;
	if (own && gr_copy_elsewhere && gr_copy_elsewhere(sig, info, context))
		return;
	if (own && sig == SIGSEGV && gr_copy_protected && gr_copy_protected(info, context))
		return;
	if (own && (sig == SIGSEGV || sig == SIGBUS) && gr_copy_recover(context))
		return;
	if (sig == SIGSEGV && info->si_code == SI_KERNEL && lock_trapped(at))
		return;
	uint64_t lock = gr_in_engine(at->greg[REG_RIP]) ? gr_lock_fault(at->greg[REG_RIP]) : 0;
	if (lock) // its stub executed it because its word is not there
		at->greg[REG_RIP] = lock;
	if (gr_tsc_trapped && sig == SIGSEGV && info->si_code == SI_KERNEL && gr_tsc_fault(self, at))
		return;
	if (self && own && gr_inside_is(self, sig, info, at)) {
		gr_inside_turn(self, sig, info, at);
		return;
	}
	if (self && own && self->pub.state == GR_T_RUNNING && !gr_in_engine(at->greg[REG_RIP])) {
		fault_of_program(self, sig, info, at);
		return;
	}
	if (self && !own && gr_mode != GR_MODE_REPLAY) { // sent by somebody
		bool dies = gr_sigact_is_default(sig) && !(self->sigmask & GR_BIT(sig));
		if (!dies)
			gr_signal_arrive(sig, info, context);
		if (!dies)
			return;
	}
	die(sig, info, own);
}

void gr_signal_foreign(int sig, siginfo_t *info, void *context)
{
	struct gr_thread *self = gr_self;
	bool search = sig == SIGTRAP && (info->si_code == SI_TIMER || info->si_code == GR_TRAP_PERF ||
					 gr_loop_is_trap(info, context));
	if (self && search && gr_mode == GR_MODE_REPLAY)
		gr_signal_look(self, info, context);
	else
		fault(sig, info, context);
}

static void trap(int sig, siginfo_t *info, void *context)
{
	struct gr_thread *self = gr_self;
	if (self && gr_tick_is(self, info))
		gr_signal_tick(self, context);
	else
		fault(sig, info, context);
}

// ---------------------------------------------------------------- lives
void gr_signal_born(struct gr_thread *self)
{
	const struct gr_kstack stack = gr_altstack_engine(self);
	self->timer = 0;
	GR_RAW(SYS_sigaltstack, &stack, 0);
	gr_tsc_born(self);
}

// What is pending stays with the parent.
static void forget_pending(struct gr_thread *self)
{
	self->held = 0;
	self->stash.signals = 0;
	self->timer = 0;
}

static void give_back(const struct gr_thread *self, bool alone)
{
	const struct gr_altstack *alt = &self->altstack;
	const struct gr_kstack stack = {alt->sp, alt->size ? alt->flags : SS_DISABLE, 0, alt->size};
	gr_copy_guarded = false;
	gr_tsc_give_back(self);
	gr_sigact_give_back(alone);
	GR_RAW(SYS_sigaltstack, &stack, 0);
	GR_RAW(SYS_rt_sigprocmask, SIG_SETMASK, &self->sigmask, 0, 8);
}

void gr_signal_forked(struct gr_thread *self)
{
	forget_pending(self);
	gr_within_forked(self);
	give_back(self, true);
}

void gr_signal_followed(struct gr_thread *self)
{
	forget_pending(self);
	gr_tsc_give_back(self);
	uint64_t mask = gr_mask_kernel(self);
	GR_RAW(SYS_rt_sigprocmask, SIG_SETMASK, &mask, 0, 8);
}

void gr_signal_quit(struct gr_thread *self)
{
	uint64_t all = ~0ULL;
	GR_RAW(SYS_rt_sigprocmask, SIG_SETMASK, &all, 0, 8);
	gr_tick_delete(self);
	gr_signal_let_go(self);
	give_back(self, false);
}

void gr_signal_exit(struct gr_thread *self)
{
	gr_tick_delete(self);
}

void gr_signal_init(struct gr_thread *self)
{
	static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
	uint64_t all_faults = 0, kept = GR_SIGNALS_KEPT;
	for (unsigned i = 0; i < sizeof faults / sizeof *faults; i++)
		all_faults |= GR_BIT(faults[i]);
	struct gr_sigact act = {
		.handler = (uint64_t)fault,
		.flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER | SA_RESTART | GR_SA_RESTORER,
		.restorer = (uint64_t)gr_restorer,
		.mask = ~(GR_SIGNALS_KEPT | all_faults),
	};
	GR_RAW(SYS_rt_sigprocmask, SIG_UNBLOCK, &kept, &self->sigmask, 8);
	self->altstack.flags = SS_DISABLE;
	gr_gate_on_signal = gr_signal_within;
	gr_cancel_on_open = gr_canceled_open;
	gr_signal_born(self);
	gr_sigact_init();
	gr_frame_init();
	for (unsigned i = 0; i < sizeof faults / sizeof *faults; i++)
		GR_RAW(SYS_rt_sigaction, faults[i], &act, 0, 8);
	act.handler = (uint64_t)trap;
	GR_RAW(SYS_rt_sigaction, SIGTRAP, &act, 0, 8);
	gr_copy_guarded = true;
}
