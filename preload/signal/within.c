// Delivery in the middle of an operation: a thread that waits inside a library function, for a mutex or for another thread,
// runs its handler there and waits on.
// Runs in: application threads, on the engine's stack.
// May call: core, replay.
// Owns: what it takes to come back to the engine from a handler.
#include "frame.h"

#include <errno.h>
#include <ucontext.h>

#include "../core/nolibc.h"
#include "../core/page.h"
#include "../core/panic.h"
#include "../core/raw.h"
#include "../replay/gate.h"

#define VECTORS 4096
#define BELOW 1024 // the frames of a handler that was called from the engine are not needed any more

struct frame {
	struct gr_within within;
	struct gr_ctx ctx;
	uint64_t context;         // where the handler's frame is
	uint64_t rsp;             // the program's stack pointer at the operation
	uint64_t stack;           // the engine's level that the operation runs on
	uint32_t nest, point;
	uint8_t vectors[VECTORS] __attribute__((aligned(64)));
};

// The library's code that goes on afterwards may have live vector registers across its system call.
static void save(struct frame *w)
{
	memset(w->vectors + 512, 0, 64);
	__asm__ volatile("xsave64 (%0)" : : "r"(w->vectors), "a"(-1), "d"(-1) : "memory");
}

static void restore(const struct frame *w)
{
	__asm__ volatile("xrstor64 (%0)" : : "r"(w->vectors), "a"(-1), "d"(-1) : "memory");
}

void gr_within_run(struct gr_thread *self, const struct gr_context *at, int sig, const struct gr_siginfo *info,
		   const struct gr_sigact *act)
{
	struct frame w = {
		.within = {self->within, self->operation}, .rsp = at->greg[15], .stack = self->stack, .nest = self->nest,
		.point = self->point,
	};
	if (gr_frame_vectors() > sizeof w.vectors)
		gr_panic(self, GR_PANIC_REFUSED, "a processor whose vector state takes more than %u bytes", sizeof w.vectors, 0);
	save(&w);
	if (gr_ctx_save(&w.ctx)) {
		restore(&w);
		return;
	}
	self->within = &w.within;
	self->nest = self->point = 0;
	w.context = gr_frame_address(self, at, act);
	gr_frame_enter(self, at, sig, info, act, self->sigmask, self->sigmask);
}

static struct frame *frame_of(struct gr_within *within)
{
	return (struct frame *)within; // which it begins with
}

void gr_within_moved(struct gr_thread *self, uint64_t from, uint64_t to)
{
	if (gr_within_is(self, from))
		frame_of(self->within)->context = to;
}

bool gr_within_is(const struct gr_thread *self, uint64_t context)
{
	return self->within && frame_of(self->within)->context == context;
}

// The handler's frame was taken down; the operation goes on where it was left.
_Noreturn void gr_within_back(struct gr_thread *self)
{
	struct frame *w = frame_of(self->within);
	if (gr_mode != GR_MODE_REPLAY) {
		uint64_t mask = gr_mask_kernel(self);
		GR_RAW(SYS_rt_sigprocmask, SIG_SETMASK, &mask, 0, 8);
	}
	self->stack = w->stack;
	self->nest = w->nest;
	self->point = w->point;
	self->operation = w->within.operation;
	self->within = w->within.outer;
	self->pub.state = GR_T_ENGINE;
	gr_ctx_restore(&w->ctx);
}

// A handler that left by siglongjmp never comes back: the program's stack is above the frame again. What the engine kept
// for it is given up; the present entry still runs below that.
void gr_within_check(struct gr_thread *self, const struct gr_regs *frame)
{
	if (!self->within || gr_altstack_holds(self, frame->rsp))
		return;
	while (self->within && frame->rsp >= frame_of(self->within)->rsp) {
		self->stack = frame_of(self->within)->stack;
		self->within = self->within->outer;
	}
}

// ---------------------------------------------------------------- in a child
// The kernel takes the handler's frame down, because the engine sees no calls of a forked child any more.
static _Noreturn void come_back(struct gr_thread *self)
{
	const struct gr_context *at = (const struct gr_context *)frame_of(self->within)->context;
	self->sigmask = at->mask;
	gr_within_back(self);
}

// A handler that made the child may return in it, into a function of the library that waits: it waits on there.
void gr_within_forked(struct gr_thread *self)
{
	for (struct gr_within *w = self->within; w; w = w->outer) {
		struct gr_context *at = (struct gr_context *)frame_of(w)->context;
		at->greg[REG_RIP] = (uint64_t)come_back;
		at->greg[REG_RDI] = (uint64_t)self;
		at->greg[REG_RSP] = (((uint64_t)w - BELOW) & ~15ULL) - 8;
	}
}
