// The frame of a handler as the kernel lays it out on the program's stack.
// Runs in: application threads, on the engine's stack; the engine's handlers.
// May call: core, replay.
// Owns: struct gr_context, the kernel's struct ucontext.
#pragma once

#include "action.h"

struct gr_kstack { uint64_t sp; uint32_t flags, pad; uint64_t size; };

// By the kernel's order of registers in a frame, which is that of <ucontext.h>.
struct gr_context {
	uint64_t flags, link;
	struct gr_kstack stack;
	uint64_t greg[23];
	uint64_t fpstate; // 0: as the processor has it now; GR_NO_VECTORS: there is none
	uint64_t reserved[8];
	uint64_t mask;
};

#define GR_NO_VECTORS 1
#define GR_CLEAN_VECTORS 2 // as a handler begins

// Learns from the kernel what it puts into a frame. Uses SIGSYS, which debuggers of gdbrr let pass.
void gr_frame_init(void);

// A context that stands where the frame goes on.
struct gr_context gr_context_of(const struct gr_regs *regs);

// Lays the frame down and goes on in the handler. The program gets `back` as its mask again when the handler returns;
// meanwhile it has `during` and what the action adds.
_Noreturn void gr_frame_enter(struct gr_thread *self, const struct gr_context *at, int sig, const struct gr_siginfo *info,
			      const struct gr_sigact *act, uint64_t back, uint64_t during);

// Where its context will stand, and how much vector state there is.
uint64_t gr_frame_address(const struct gr_thread *self, const struct gr_context *at, const struct gr_sigact *act);
uint64_t gr_frame_vectors(void);

// The last step of an operation that leaves by a context: single-stepped if its segment is traced.
void gr_context_out(struct gr_thread *self, struct gr_context *at);

// Goes on in the context, whose mask and alternate stack are the program's.
_Noreturn void gr_context_resume(struct gr_thread *self, struct gr_context *at);

// mask.c: the mask that the kernel shall have for this thread; its own alternate stack.
uint64_t gr_mask_kernel(const struct gr_thread *self);
struct gr_kstack gr_altstack_engine(const struct gr_thread *self);
void gr_altstack_restore(struct gr_thread *self, uint64_t rsp, const struct gr_kstack *stack);
bool gr_altstack_holds(const struct gr_thread *self, uint64_t rsp);
bool gr_altstack_usable(const struct gr_thread *self, uint64_t rsp);

// What goes into events: a siginfo without the zeros at its end.
struct gr_event;
uint32_t gr_siginfo_length(const struct gr_siginfo *info);
struct gr_siginfo gr_siginfo_of(const struct gr_event *ev);

// Is this the program's code, and no operation under way?
bool gr_context_is_program(const struct gr_thread *self, const struct gr_context *at);

static inline uint32_t gr_signal_held(const struct gr_thread *self)
{
	return __atomic_load_n(&self->held, __ATOMIC_RELAXED);
}

// signal.c: from SIGTRAP of a recording, of a replay; from the gate in front of a function's next event.
void gr_signal_tick(struct gr_thread *self, struct gr_context *at);
void gr_signal_look(struct gr_thread *self, const siginfo_t *info, struct gr_context *at);
void gr_signal_within(struct gr_thread *self);
// In front of the first instruction of a handler. Does not return when another one begins there.
void gr_signal_on_top(struct gr_thread *self, const struct gr_context *at);

// What a delivery needs, wherever it happens: a thread that is about to wait does not; what comes too early is pending again; what the
// thread did, as both a recording and a replay know it, and as a debugger shall see it.
void gr_signal_end_wait(struct gr_context *at);
void gr_signal_put_back(struct gr_thread *self, int sig, const struct gr_siginfo *info);
uint32_t gr_signal_check_of(const struct gr_context *at);
void gr_signal_show(struct gr_thread *self, const struct gr_context *at, uint64_t handler);

// signal.c: what this thread holds becomes pending in the kernel again.
void gr_signal_let_go(struct gr_thread *self);

// within.c
// Runs the handler and returns when it has. Does not return when the handler leaves by siglongjmp.
void gr_within_run(struct gr_thread *self, const struct gr_context *at, int sig, const struct gr_siginfo *info,
		   const struct gr_sigact *act);

// Is this the frame of a handler that comes back to the engine?
bool gr_within_is(const struct gr_thread *self, uint64_t context);
_Noreturn void gr_within_back(struct gr_thread *self);

// It is another one's, because that one could not be written.
void gr_within_moved(struct gr_thread *self, uint64_t from, uint64_t to);

// In a forked child: handlers that come back find the way without the engine's door.
void gr_within_forked(struct gr_thread *self);

// At an entry from the program: forgets handlers that will not come back.
void gr_within_check(struct gr_thread *self, const struct gr_regs *frame);
