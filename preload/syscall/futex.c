// futex and sched_yield: what a program waits with when it has atomics of its own.
// Runs in: application threads, on the engine's stack.
// May call: core, log, replay.
// Owns: the rule which futexes are the C library's own.
//
// The loads and stores on a futex's word are no operations, so on replay a thread may find the word as it was later, and
// not wait, or as it was earlier, and wait once more. Both are followed: an operation that the program leaves out is
// passed over, and a wait that the demo does not have lasts until everything that comes before the thread's next tick has
// happened. What a wait ended with, and how many a wake found, is recorded.
#include <linux/futex.h>
#include <link.h>

#include "../core/copy.h"
#include "../core/guard.h"
#include "../core/nolibc.h"
#include "../core/ops.h"
#include "../core/page.h"
#include "../core/panic.h"
#include "../core/raw.h"
#include "../digest/digest.h"
#include "../log/turn.h"
#include "../patch/locks.h"
#include "../replay/cancel.h"
#include "../replay/gate.h"
#include "dispatch.h"

// ---------------------------------------------------------------- whose futex it is
static struct { uint64_t start, end; } own[2]; // the text of the C library and of the loader
static uint64_t function, function_end;        // syscall(2), which is how programs call futex

static int find_text(struct dl_phdr_info *info, size_t size, void *data)
{
	static unsigned found;
	uint64_t inside[2] = {(uint64_t)gr_real[GR_WRAP_pthread_create], *(uint64_t *)data};
	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uint64_t start = info->dlpi_addr + p->p_vaddr;
		for (int which = 0; which < 2 && p->p_type == PT_LOAD && p->p_flags & PF_X; which++)
			if (inside[which] >= start && inside[which] < start + p->p_memsz && found < 2) {
				own[found].start = start;
				own[found++].end = start + p->p_memsz;
			}
	}
	return 0;
}

void gr_futex_init(void)
{
	extern long syscall(long nr, ...);
	uint64_t loader = (uint64_t)_r_debug.r_brk;
	dl_iterate_phdr(find_text, &loader);
	function = (uint64_t)syscall;
	function_end = function + 64; // it moves seven registers, calls, and looks at the result
}

static bool is_own(uint64_t pc)
{
	if (pc >= function && pc < function_end)
		return false;
	return (pc >= own[0].start && pc < own[0].end) || (pc >= own[1].start && pc < own[1].end);
}

// ---------------------------------------------------------------- futexes that are no operations
// INVARIANT(free-at-my-turn): who held the library's lock in the recording gave it back before this thread's next
// operation; so when that is the next tick, it is free here. Where it is not, the gate lends the turn to its holder.
//
// INVARIANT(handlers-at-operations): no handler begins here, since a demo cannot say so. A signal ends a wait for a lock, and its
// handler begins in front of the next attempt to take it, which is an operation (sync/lock.c).
long gr_futex_aside(struct gr_thread *self, const uint64_t arg[6], bool waits, const uint32_t *held)
{
	static const uint32_t none;
	long ret = 0;
	held = held ? held : &none;
	if (gr_mode == GR_MODE_REPLAY && waits) {
		gr_gate_turn(self);
	} else if (gr_turn_on) {
		ret = gr_nested_in_turn(self, SYS_futex, arg, held, &none);
		// On replay it goes on in front of its next tick, so nobody comes between the two here either.
		self->seat.stays = waits && ret == 0;
	} else {
		ret = waits ? gr_wait_once(self, SYS_futex, arg, held, &none)
			    : gr_raw6(SYS_futex, arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]);
	}
	// Whether it was free meanwhile, or a signal came, is in no demo; and who waits looks at the word again in any case.
	return waits ? 0 : ret;
}

// ---------------------------------------------------------------- those that are
static void elastic(struct gr_call *call, enum gr_op op, uint64_t object)
{
	struct gr_event ev = {.kind = op, .object = object};
	struct gr_thread *self = call->self;
	if (gr_mode == GR_MODE_RECORD) {
		ev.result = call->result = gr_turn_on && call->nr == SYS_futex
			? gr_signal_wait(self, call->nr, call->arg, gr_futex_in_turn)
			: gr_call_waiting(call);
		gr_log(self, &ev);
		gr_digest_pass(self);
	} else if (gr_gate_ahead(self, op, object)) {
		gr_gate_next(self, op, 0, object, &ev);
		call->result = ev.result;
	} else if (op != GR_OP_FUTEX_WAKE) {
		if (gr_gate_ahead(self, GR_OP_BLOCK, object)) // it waited there until the recording ended
			gr_gate_next(self, GR_OP_BLOCK, 0, object, &ev);
		gr_gate_turn(self);
	}
}

static void mark_wait(struct gr_call *call)
{
	struct gr_event ev = {.kind = GR_OP_BLOCK, .object = call->arg[0], .result = GR_OP_FUTEX_WAIT};
	uint32_t now;
	if (gr_mode == GR_MODE_RECORD && gr_peek(&now, call->arg[0], sizeof now) == sizeof now && now == (uint32_t)call->arg[2])
		gr_log(call->self, &ev);
}

// Not every wait of the library's is for a lock: in others, as aio_suspend and lio_listio, a handler runs, which may end them, and some
// are cancellation points. Whether the time of one was up is told to the program, so those with a limit are always its own.
static bool is_for_program(const struct gr_call *call)
{
	return gr_lock_sum() ? !gr_lock_is_wait(call->frame->rip) : gr_cancel_in_point(call->self);
}

void gr_futex(struct gr_call *call)
{
	bool waits = false, own_lock = is_own(call->frame->rip);
	switch (call->arg[1] & FUTEX_CMD_MASK) {
	case FUTEX_WAIT:
	case FUTEX_WAIT_BITSET:
		waits = true;
		own_lock = own_lock && !call->arg[3] && !is_for_program(call);
		break;
	case FUTEX_WAKE:
	case FUTEX_WAKE_BITSET:
	case FUTEX_REQUEUE:
	case FUTEX_CMP_REQUEUE:
		break;
	default:
		if (!own_lock)
			gr_panic(call->self, GR_PANIC_REFUSED,
				 "futex operation %u, called directly: the kernel itself would change the word",
				 call->arg[1] & FUTEX_CMD_MASK, 0);
	}
	if (!own_lock && (gr_turn_on || gr_mode == GR_MODE_REPLAY) && gr_gate_steps(call->self)) // see INVARIANT(stands-as-replayed)
		gr_gate_step(call->self, GR_STEP_CALL);
	if (own_lock) {
		call->aside = true;
		call->result = gr_futex_aside(call->self, call->arg, waits,
					      gr_lock_retries(call->frame->rip, call->arg[0]) ? &call->self->held : NULL);
	} else if (waits) {
		mark_wait(call);
		elastic(call, GR_OP_FUTEX_WAIT, call->arg[0]);
	} else {
		elastic(call, GR_OP_FUTEX_WAKE, call->arg[0]);
	}
}

void gr_yield(struct gr_call *call)
{
	elastic(call, GR_OP_YIELD, 0);
}
