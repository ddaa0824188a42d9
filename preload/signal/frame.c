// Frames of handlers, made here and not by the kernel: a signal is delivered at the end of an operation, where the kernel
// has long been left. What the program sees of it is the same, byte for byte.
// Runs in: application threads, on the engine's stack; the engine's handlers.
// May call: core, replay.
// Owns: what the kernel told about its frames.
#include "frame.h"

#include <ucontext.h>

#include "../core/copy.h"
#include "../core/guard.h"
#include "../core/nolibc.h"
#include "../core/page.h"
#include "../core/panic.h"
#include "../core/raw.h"
#include "../log/codec.h"
#include "../patch/locks.h"
#include "../patch/patch.h"
#include "../replay/gate.h"
#include "fault.h"

#define MAGIC2 0x46505845u
#define SOFTWARE 464 // of the save area: the bytes that are left to software
#define RED_ZONE 128
#define EFLAGS_DF 0x400
#define EFLAGS_RF 0x10000
#define EFLAGS_TF 0x100
#define AUTODISARM 0x80000000u

struct frame {
	uint64_t restorer;
	struct gr_context context;
	struct gr_siginfo info;
};

_Static_assert(sizeof(struct gr_context) == 304, "the kernel's struct ucontext");
_Static_assert(sizeof(struct frame) == 440, "the kernel's struct rt_sigframe");

static struct {
	uint64_t flags, segments;
	struct { uint32_t magic1, extended; uint64_t features; uint32_t size, pad[7]; } software;
} learnt;

static void learn(int sig, siginfo_t *info, void *context)
{
	const struct gr_context *at = context;
	(void)sig;
	(void)info;
	learnt.flags = at->flags;
	learnt.segments = at->greg[REG_CSGSFS];
	memcpy(&learnt.software, (const char *)at->fpstate + SOFTWARE, sizeof learnt.software);
}

void gr_frame_init(void)
{
	const struct gr_sigact act = {(uint64_t)learn, SA_SIGINFO | SA_ONSTACK | GR_SA_RESTORER, (uint64_t)gr_restorer, 0};
	struct gr_sigact was;
	uint64_t open = GR_BIT(SIGSYS);
	GR_RAW(SYS_rt_sigprocmask, SIG_UNBLOCK, &open, 0, 8);
	GR_RAW(SYS_rt_sigaction, SIGSYS, &act, &was, 8);
	GR_RAW(SYS_tgkill, gr_pid(), gr_tid(), SIGSYS);
	GR_RAW(SYS_rt_sigaction, SIGSYS, &was, 0, 8);
}

struct gr_context gr_context_of(const struct gr_regs *regs)
{
	struct gr_context at = {.flags = learnt.flags};
	const uint64_t pairs[][2] = {
		{REG_RAX, regs->rax}, {REG_RBX, regs->rbx}, {REG_RDX, regs->rdx}, {REG_RSI, regs->rsi}, {REG_RDI, regs->rdi},
		{REG_RBP, regs->rbp}, {REG_RSP, regs->rsp}, {REG_R8, regs->r8},   {REG_R9, regs->r9},   {REG_R10, regs->r10},
		{REG_R12, regs->r12}, {REG_R13, regs->r13}, {REG_R14, regs->r14}, {REG_R15, regs->r15}, {REG_RIP, regs->rip},
		{REG_EFL, regs->eflags & ~(uint64_t)EFLAGS_TF},
		{REG_RCX, regs->rip},    {REG_R11, regs->eflags}, // as the kernel leaves them
		{REG_CSGSFS, learnt.segments},
	};
	for (unsigned i = 0; i < sizeof pairs / sizeof *pairs; i++)
		at.greg[pairs[i][0]] = pairs[i][1];
	return at;
}

// The vector state of the interrupted code: where a handler of the engine's was entered it stands in the kernel's frame.
static void save_vectors(uint64_t area, uint64_t from)
{
	uint32_t magic2 = MAGIC2;
	// The area of a handler that has ended is where the next one's is. It was in the program's hands meanwhile.
	if (from > GR_CLEAN_VECTORS && gr_peek((void *)area, from, learnt.software.size) != learnt.software.size)
		from = GR_NO_VECTORS;
	if (from <= GR_CLEAN_VECTORS)
		memset((void *)area, 0, learnt.software.extended);
	if (from == GR_NO_VECTORS) {
		// Behind a library function they are nobody's, and a replay has others than the recording had.
		*(uint64_t *)(area + 512) = 3; // x87 and SSE, of which only the control words are set
		__asm__ volatile("fnstcw (%0); stmxcsr 24(%0)" : : "r"(area) : "memory");
		((uint32_t *)area)[7] = 0xffff;
	} else if (from == GR_CLEAN_VECTORS) {
		*(uint16_t *)area = 0x37f;
		((uint32_t *)area)[6] = 0x1f80;
		((uint32_t *)area)[7] = 0xffff;
	} else if (!from)
		__asm__ volatile("xsave64 (%0)"
				 :
				 : "r"(area), "a"((uint32_t)learnt.software.features), "d"((uint32_t)(learnt.software.features >> 32))
				 : "memory");
	// INVARIANT(all-in-use): which parts the processor takes for unused depends on the kernel's thread switches. They are saved all the
	// same, by xsave, as what they begin with.
	if (from != GR_NO_VECTORS)
		*(uint64_t *)(area + 512) |= learnt.software.features;
	memcpy((char *)area + SOFTWARE, &learnt.software, sizeof learnt.software);
	memcpy((char *)area + learnt.software.size, &magic2, sizeof magic2);
}

void gr_context_out(struct gr_thread *self, struct gr_context *at)
{
	struct gr_regs regs = {.eflags = at->greg[REG_EFL]};
	if (gr_mode != GR_MODE_REPLAY)
		return;
	gr_gate_out(self, &regs);
	at->greg[REG_EFL] = regs.eflags;
	// The kernel goes there without a trap: the first one comes behind the first instruction.
	if (regs.eflags & EFLAGS_TF)
		gr_ctl->trace[gr_slot->trace_len++ % GR_TRACE_MAX] = at->greg[REG_RIP];
}

_Noreturn void gr_context_resume(struct gr_thread *self, struct gr_context *at)
{
	gr_context_out(self, at);
	if (gr_copy_lift && gr_copy_lift((uint64_t)at, sizeof *at)) // the kernel takes the frame from there
		gr_panic(self, GR_PANIC_REFUSED, "reads of a place beside a signal handler's frame at 0x%x\nwatch at most 64 bytes of it", (uint64_t)at, 0);
	at->greg[REG_RIP] = gr_lock_place(gr_patch_place(at->greg[REG_RIP]));
	at->stack = gr_altstack_engine(self);
	self->pub.state = GR_T_RUNNING;
	at->mask = gr_mask_kernel(self);
	gr_sigreturn((uint64_t)at);
}

static uint64_t area_of(const struct gr_thread *self, const struct gr_context *at, const struct gr_sigact *act)
{
	uint64_t sp = at->greg[REG_RSP] - RED_ZONE;
	if (act->flags & SA_ONSTACK && gr_altstack_usable(self, sp))
		sp = self->altstack.sp + self->altstack.size;
	return (sp - learnt.software.extended) & ~63ULL;
}

static struct frame *frame_of(uint64_t area)
{
	return (struct frame *)(((area - sizeof(struct frame)) & ~15ULL) - 8);
}

uint64_t gr_frame_address(const struct gr_thread *self, const struct gr_context *at, const struct gr_sigact *act)
{
	return (uint64_t)&frame_of(area_of(self, at, act))->context;
}

uint64_t gr_frame_vectors(void)
{
	return learnt.software.extended;
}

// Asks for a byte of each page, by a touch where the kernel knows none: so a stack grows. A page may be one of which stores are to be known.
static bool has_room(uint64_t from, uint64_t to)
{
	uint8_t byte;
	for (uint64_t page = from & ~4095ULL; gr_copy_guarded && page < to; page += 4096) {
		uint64_t place = page < from ? from : page;
		if (gr_peek(&byte, place, 1) != 1 && gr_copy(&byte, (const void *)place, 1) != 1)
			return false;
		if (gr_poke_unseen(place, &byte, 1) != 1 && gr_poke(place, &byte, 1) != 1)
			return false;
	}
	return true;
}

// The alternate stack is too small for it, which the kernel takes for one that is not there.
static bool leaves_altstack(const struct gr_thread *self, const struct gr_context *at, const struct gr_sigact *act, uint64_t frame)
{
	bool enters = act->flags & SA_ONSTACK && gr_altstack_usable(self, at->greg[REG_RSP] - RED_ZONE);
	if (!enters && !gr_altstack_holds(self, at->greg[REG_RSP]))
		return false;
	return frame <= self->altstack.sp || frame - self->altstack.sp > self->altstack.size;
}

_Noreturn void gr_frame_enter(struct gr_thread *self, const struct gr_context *at, int sig, const struct gr_siginfo *info,
			      const struct gr_sigact *act, uint64_t back, uint64_t during)
{
	uint64_t area = area_of(self, at, act);
	struct frame *frame = frame_of(area);
	struct gr_context to = *at;

	if (leaves_altstack(self, at, act, (uint64_t)frame) || !has_room((uint64_t)frame, area + learnt.software.extended))
		gr_fault_of_frame(self, at, sig, (uint64_t)&frame->context, back, during);
	save_vectors(area, at->fpstate);
	frame->restorer = act->restorer;
	frame->info = *info;
	frame->context = *at;
	frame->context.greg[REG_OLDMASK] = frame->context.mask = back;
	frame->context.fpstate = area;
	frame->context.link = 0;
	frame->context.stack = (struct gr_kstack){self->altstack.sp, self->altstack.flags, 0, self->altstack.size};
	if (self->altstack.flags & AUTODISARM)
		self->altstack = (struct gr_altstack){.flags = SS_DISABLE};
	self->sigmask = during | act->mask | (act->flags & SA_NODEFER ? 0 : GR_BIT(sig));

	to.fpstate = 0; // a handler begins with a clean one
	to.greg[REG_RIP] = act->handler;
	to.greg[REG_RSP] = (uint64_t)frame;
	to.greg[REG_RAX] = 0;
	to.greg[REG_RDI] = sig;
	to.greg[REG_RSI] = (uint64_t)&frame->info;
	to.greg[REG_RDX] = (uint64_t)&frame->context;
	to.greg[REG_EFL] &= ~(uint64_t)(EFLAGS_DF | EFLAGS_RF | EFLAGS_TF);
	self->pub.ret_pc = act->handler;
	if (gr_mode != GR_MODE_OFF) {
		struct gr_context first = to;
		first.fpstate = GR_CLEAN_VECTORS;
		gr_signal_on_top(self, &first);
	}
	gr_context_resume(self, &to);
}

// ---------------------------------------------------------------- what goes into events
uint32_t gr_siginfo_length(const struct gr_siginfo *info)
{
	uint32_t len = sizeof *info;
	while (len && !((const uint8_t *)info)[len - 1])
		len--;
	return len;
}

struct gr_siginfo gr_siginfo_of(const struct gr_event *ev)
{
	struct gr_siginfo info = {{0}};
	memcpy(&info, ev->data, ev->len < sizeof info ? ev->len : sizeof info);
	return info;
}

bool gr_context_is_program(const struct gr_thread *self, const struct gr_context *at)
{
	return self->pub.state == GR_T_RUNNING && !gr_in_engine(at->greg[REG_RIP]);
}
