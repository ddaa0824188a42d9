// Signals: what the program installed, what it blocks, and at which operation a signal reaches its handler.
// Runs in: application threads, on the engine's stack; the engine's handlers on a stack of their own.
// May call: core, log, replay.
// Owns: every signal action and mask that the kernel has; the program's own are kept in tables.
#pragma once

#include <signal.h>
#include <stdbool.h>

#include "../core/ops.h"
#include "../core/page.h"
#include "../core/thread.h"
#include "../replay/gate.h"

// Where in a thread a recorded signal was delivered: the flags of its event.
enum gr_signal_point {
	GR_SIGNAL_BEFORE, // in front of the thread's next operation, which then follows
	GR_SIGNAL_BEHIND, // at the end of its newest operation
	GR_SIGNAL_WITHIN, // in the middle of its newest operation, which goes on behind the handler
	GR_SIGNAL_LOOP,   // between two operations, where the state is the recorded one
	GR_SIGNAL_ON_TOP, // in front of the first instruction of another one's handler
};

// init.c, clone.c, wake.c: the process, a thread in itself, a forked child, a thread that ends. In the child, which has all
// signals blocked, the kernel gets everything as the program believes it to be: the engine leaves it.
void gr_signal_init(struct gr_thread *self);
void gr_signal_born(struct gr_thread *self);
void gr_signal_forked(struct gr_thread *self);
// In a child that the engine follows: as in its parent, but that nothing is pending. The parent had all signals blocked.
void gr_signal_followed(struct gr_thread *self);
// In a thread that leaves the engine for good in the recorded process.
void gr_signal_quit(struct gr_thread *self);
void gr_signal_exit(struct gr_thread *self);

// At an entry from the program: forgets handlers that left by siglongjmp from the middle of an operation.
void gr_signal_check(struct gr_thread *self, const struct gr_regs *frame);

// Recording, nearly always: no signal is there.
static inline bool gr_signal_none(const struct gr_thread *self)
{
	if (gr_mode == GR_MODE_REPLAY) {
		uint8_t kind = gr_gate_kind(self);
		return kind != GR_OP_SIGNAL && kind != GR_OP_PREEMPT && kind != GR_OP_CANCELED;
	}
	return !__atomic_load_n(&self->held, __ATOMIC_RELAXED) && !self->stash.signals;
}

// In front of an operation. `again` are registers that make it happen anew. Does not return when a handler runs first.
void gr_signal_before(struct gr_thread *self, const struct gr_regs *again);

// The same for an operation that began with a fault, which it does anew: the engine's stack is as the program left it.
struct gr_context;
void gr_signal_before_fault(struct gr_thread *self, const struct gr_context *at);

// The same for an instruction, which leaves rcx and r11 as they are; behind one see below.
void gr_signal_before_lock(struct gr_thread *self, const struct gr_regs *frame);

// At the end of an operation: the frame is ready to be left by. `temporary`: the mask of the call that was interrupted,
// if it brought one. Does not return when a handler runs.
void gr_signal_behind(struct gr_thread *self, const struct gr_regs *frame, const uint64_t *temporary);
// The same behind an instruction, which leaves rcx and r11 as they are.
void gr_signal_behind_lock(struct gr_thread *self, const struct gr_regs *frame);

// A call that waits, but not with *held set or *cancel 1: then, or when that happens meanwhile, it is GR_RESTART or -EINTR.
// The first is the kernel's own, with the mask the call brings less what must not be blocked.
typedef long gr_wait(struct gr_thread *self, long nr, const uint64_t arg[6], const uint32_t *held, const uint32_t *cancel);
gr_wait gr_wait_once;

// Signals that are pending without the kernel's knowledge, see INVARIANT(stash-not-block): taken by a call that waits for them
// (false when there is none of those it wants), and added to what sigpending says.
unsigned gr_stash_place(int sig);
bool gr_stash_take(struct gr_thread *self, long nr, const uint64_t arg[6], long *ret);
void gr_stash_show(const struct gr_thread *self, long nr, const uint64_t arg[6]);

// In front of a library function, at its end, and in the middle of it: a system call that it waits in.
void gr_signal_enter(struct gr_thread *self, const struct gr_regs *frame, uint64_t entry);
void gr_signal_leave(struct gr_thread *self, const struct gr_regs *frame);
long gr_signal_wait_within(struct gr_thread *self, long nr, const uint64_t arg[6], gr_wait *once);

// Recording, in the middle of a function that waits in a way of the engine's own: a handler runs now if there is one (true); a thread that
// is cancelled leaves the function.
bool gr_signal_meanwhile(struct gr_thread *self);

// Recording: the function is about to wait for what `blocks` says, or for nothing that has a name.
void gr_signal_block(struct gr_thread *self);
bool gr_signal_may_wait(const uint64_t arg[6]);

// Replaying, on the way back to the program: finds out whether a signal was delivered before the next operation.
void gr_signal_seek(struct gr_thread *self);

// Issues a call that may wait, in such a way that every signal to this thread ends the wait. The result is the kernel's
// or GR_RESTART.
long gr_signal_wait(struct gr_thread *self, long nr, const uint64_t arg[6], gr_wait *once);

// The same, where it has been issued already with no signal held, no mask of its own and nothing to be cancelled, and came back
// with `ret`.
long gr_signal_waited(struct gr_thread *self, long nr, const uint64_t arg[6], long ret);

// The mask that a call brings for its duration; false if it brings none.
bool gr_signal_temporary(long nr, const uint64_t arg[6], uint64_t *ret);

// action.c: the lock of the actions.
// INVARIANT(action-in-order): while recording, the table is changed and read for a delivery under this lock, which is held
// until that is logged. On replay the change is made behind its event, too.
void gr_sigact_lock(void);
void gr_sigact_unlock(void);

// The program's calls, with its own arguments; gr_sigaction with the lock held.
long gr_sigaction(long sig, uint64_t act, uint64_t old, uint64_t size);
long gr_sigprocmask(struct gr_thread *self, long how, uint64_t set, uint64_t old, uint64_t size);
long gr_sigaltstack(struct gr_thread *self, uint64_t rsp, uint64_t set, uint64_t old);

// rt_sigreturn as an operation.
_Noreturn void gr_signal_return(struct gr_thread *self, struct gr_regs *frame);

// Signals that the engine needs for itself and that turned out to be meant for the program.
void gr_signal_foreign(int sig, siginfo_t *info, void *context);
