// Faults inside of an operation: the library, or the engine in its place, has touched an object of the program's that is not there.
// Runs in: the engine's handlers turn the thread to gr_inside_come; that in application threads, on the engine's stack.
// May call: core, log, replay.
// Owns: what such a fault is in the log: an event in front of the one that the operation may still have.
//
// INVARIANT(crash-of-the-program): while recording the library's function faults where it does natively. On replay it does not run: the
// engine finds the event where it would go on, or faults itself where it touches the object. A handler begins as one that
// interrupts a wait does, and where it comes back the instruction is executed again.
#include <ucontext.h>

#include "../core/guard.h"
#include "../core/nolibc.h"
#include "../core/ops.h"
#include "../core/page.h"
#include "../core/raw.h"
#include "../log/log.h"
#include "../replay/gate.h"
#include "fault.h"

#define RED_ZONE 128
#define ODD_FLAGS 0x40500ULL // AC, DF, TF

extern const char gr_quick_start[] __attribute__((visibility("hidden"))), gr_quick_end[] __attribute__((visibility("hidden")));

// Stands on the engine's stack below what faulted, with the vector state above it.
struct inside { struct gr_context at; struct gr_siginfo info; uint64_t rsp; int sig; bool quick; };

static bool is_engines(uint64_t addr)
{
	return addr >= GR_ZONE && addr < GR_ZONE_END;
}

// ---------------------------------------------------------------- which faults these are
// A function without a frame (sync/quick.S): the thread counts as one that runs the program.
static bool is_quick(const struct gr_thread *self, const struct gr_context *at)
{
	uint64_t rip = at->greg[REG_RIP];
	bool there = rip >= (uint64_t)gr_quick_start && rip < (uint64_t)gr_quick_end;
	return self->pub.state == GR_T_RUNNING && gr_mode == GR_MODE_RECORD && (there || is_engines(at->greg[REG_RSP]));
}

bool gr_inside_is(const struct gr_thread *self, int sig, const siginfo_t *info, const struct gr_context *at)
{
	bool touches = (sig == SIGSEGV || sig == SIGBUS) && !is_engines((uint64_t)info->si_addr);
	if (!touches || gr_mode == GR_MODE_OFF || gr_closed)
		return false;
	bool ours = self->nest || gr_in_engine(at->greg[REG_RIP]);
	return is_quick(self, at) || (ours && self->pub.state == GR_T_ENGINE && is_engines(at->greg[REG_RSP]));
}

// The call as an entry with a frame would have found it.
static void show_quick(struct gr_thread *self, const struct gr_context *at)
{
	uint64_t rsp = is_engines(at->greg[REG_RSP]) ? self->program_rsp : (uint64_t)at->greg[REG_RSP];
	struct gr_regs frame = gr_regs_of((const long long *)at->greg);
	frame.rip = *(const uint64_t *)rsp;
	frame.rsp = rsp + 8;
	gr_show_call(self, &frame);
}

static _Noreturn void come(struct gr_thread *self, struct inside *in);

void gr_inside_turn(struct gr_thread *self, int sig, const siginfo_t *info, struct gr_context *at)
{
	uint64_t top = is_engines(at->greg[REG_RSP]) ? at->greg[REG_RSP] - RED_ZONE : self->stack;
	uint64_t area = (top - gr_frame_vectors() - 4) & ~63ULL;
	struct inside *in = (struct inside *)((area - sizeof *in) & ~63ULL);
	in->quick = is_quick(self, at);
	if (in->quick)
		show_quick(self, at);
	in->at = *at;
	memcpy((void *)area, (const void *)at->fpstate, gr_frame_vectors());
	in->at.fpstate = area;
	memcpy(&in->info, info, sizeof in->info);
	in->sig = sig;
	in->rsp = self->program_rsp; // a handler's calls have others
	at->greg[REG_RIP] = (uint64_t)come;
	at->greg[REG_RDI] = (uint64_t)self;
	at->greg[REG_RSI] = (uint64_t)in;
	at->greg[REG_RSP] = (uint64_t)in - 8;
	at->greg[REG_EFL] &= ~ODD_FLAGS;
}

// ---------------------------------------------------------------- what becomes of them
static void run(struct gr_thread *self, int sig, const struct gr_siginfo *info, const struct gr_sigact *act)
{
	struct gr_context at = gr_context_of(&self->pub.shown);
	at.fpstate = GR_NO_VECTORS;
	self->blocks = GR_OP_NONE;
	gr_within_run(self, &at, sig, info, act);
}

// The thread is shown at its call; one that dies there goes on nowhere.
static void show(struct gr_thread *self)
{
	self->pub.op = GR_OP_FAULT;
	self->pub.ret_pc = 0;
}

static void show_again(struct gr_thread *self, const struct gr_thread_pub *pub)
{
	self->pub.shown = pub->shown;
	self->pub.ret_pc = pub->ret_pc;
	self->pub.op = pub->op;
}

// True: the default action takes its course where the fault is met again.
static bool record(struct gr_thread *self, int sig, const struct gr_siginfo *info)
{
	struct gr_event ev = {
		.kind = GR_OP_FAULT, .nr = sig, .flags = GR_FAULT_INSIDE, .object = info->word[2], .data = (const uint8_t *)info,
		.len = gr_siginfo_length(info),
	};
	const struct gr_thread_pub pub = self->pub;
	struct gr_sigact act = {0};
	show(self);
	gr_sigact_lock();
	if (!(self->sigmask & GR_BIT(sig)))
		act = gr_sigact_take(sig);
	ev.result = gr_sigact_runs(&act);
	gr_log(self, &ev);
	gr_sigact_unlock();
	if (ev.result)
		run(self, sig, info, &act);
	show_again(self, &pub);
	return !ev.result;
}

static void replay(struct gr_thread *self, int sig)
{
	struct gr_event ev;
	struct gr_sigact act = {0};
	const struct gr_thread_pub pub = self->pub;
	show(self);
	gr_gate_next(self, GR_OP_FAULT, sig, 0, &ev);
	gr_sigact_lock();
	if (!(self->sigmask & GR_BIT(sig)))
		act = gr_sigact_take(sig);
	gr_sigact_unlock();
	if (ev.flags != GR_FAULT_INSIDE || ev.result != gr_sigact_runs(&act))
		gr_gate_desync(self, &ev, GR_OP_FAULT, sig, ev.object, "a fault that is handled otherwise");
	const struct gr_siginfo info = gr_siginfo_of(&ev);
	if (ev.result) {
		run(self, sig, &info, &act);
		show_again(self, &pub);
		return;
	}
	gr_gate_behind(self);
	for (;;)
		gr_fault_die(self, sig, &info);
}

void gr_inside_again(struct gr_thread *self)
{
	struct gr_event ev;
	if (gr_gate_peek(self, &ev) && ev.kind == GR_OP_FAULT && ev.flags == GR_FAULT_INSIDE)
		replay(self, ev.nr % GR_SIGNALS);
}

static _Noreturn void come(struct gr_thread *self, struct inside *in)
{
	if (in->quick) {
		self->stack -= GR_LEVEL;
		self->pub.state = GR_T_ENGINE;
	}
	if (gr_mode == GR_MODE_REPLAY) {
		replay(self, in->sig); // where the recording ended there, or has not come to it, it waits in there
	} else if (record(self, in->sig, &in->info)) {
		const struct gr_sigact dfl = {0};
		GR_RAW(SYS_rt_sigaction, in->sig, &dfl, 0, 8);
	}
	if (in->quick) {
		self->stack += GR_LEVEL;
		self->pub.state = GR_T_RUNNING;
	}
	self->program_rsp = in->rsp;
	in->at.stack = gr_altstack_engine(self);
	if (gr_mode != GR_MODE_REPLAY)
		in->at.mask = gr_mask_kernel(self);
	gr_sigreturn((uint64_t)&in->at);
}

// ---------------------------------------------------------------- a stack that cannot hold a handler's frame
// As the kernel does it: that is a SIGSEGV of its own, in the same place; and the end if it was one already.
_Noreturn void gr_fault_of_frame(struct gr_thread *self, const struct gr_context *at, int failed, uint64_t frame, uint64_t back,
				   uint64_t during)
{
	struct gr_siginfo info = {{SIGSEGV, SI_KERNEL}};
	struct gr_event ev = {.kind = GR_OP_FAULT, .nr = SIGSEGV, .flags = GR_FAULT_FRAME};
	struct gr_sigact act = {0};
	if (gr_mode == GR_MODE_REPLAY)
		gr_gate_next(self, GR_OP_FAULT, SIGSEGV, 0, &ev);
	gr_sigact_lock();
	if (failed != SIGSEGV && !(during & GR_BIT(SIGSEGV)))
		act = gr_sigact_take(SIGSEGV);
	bool handled = gr_sigact_runs(&act);
	if (gr_mode == GR_MODE_RECORD) {
		ev.result = handled;
		gr_log(self, &ev);
	}
	gr_sigact_unlock();
	if (gr_mode == GR_MODE_REPLAY && ev.result != handled)
		gr_gate_desync(self, &ev, GR_OP_FAULT, SIGSEGV, 0, "a stack without room for a handler");
	if (handled) {
		gr_within_moved(self, frame, gr_frame_address(self, at, &act));
		gr_frame_enter(self, at, SIGSEGV, &info, &act, back, during);
	}
	if (gr_mode == GR_MODE_REPLAY)
		gr_gate_behind(self);
	for (;;)
		gr_fault_die(self, SIGSEGV, &info);
}
