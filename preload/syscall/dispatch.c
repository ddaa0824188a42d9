// The door behind the frame; see dispatch.h.
// Runs in: application threads, on the engine's stack.
// May call: core, log, replay.
// Owns: the rule that decides a call's action.
#include "dispatch.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>

#include "../core/copy.h"
#include "../core/guard.h"
#include "../core/nolibc.h"
#include "../core/ops.h"
#include "../core/panic.h"
#include "../core/raw.h"
#include "../digest/digest.h"
#include "../log/turn.h"
#include "../patch/patch.h"
#include "../replay/cancel.h"
#include "../replay/gate.h"
#include "../replay/halt.h"
#include "../signal/signal.h"
#include "../signal/tsc/tsc.h"
#include "descriptor.h"
#include "fd/input.h"
#include "fd/output.h"
#include "process/names.h"
#include "process/process.h"

#define SIGSETXID 33 // glibc's own

long gr_call_kernel(const struct gr_call *call)
{
	const uint64_t *a = call->arg;
	struct gr_vdso_answer answer;
	long known;
	if (gr_vdso_answers(call->self, call->nr, a, &answer, &known))
		return known;
	bool lifted = gr_copy_lift && gr_copy_lift(0, ~0UL);
	long ret = gr_raw6(call->nr, a[0], a[1], a[2], a[3], a[4], a[5]);
	if (lifted)
		gr_copy_put_back();
	return ret;
}

// A call that may wait is one that a signal can end, or a cancellation.
long gr_call_waiting(const struct gr_call *call)
{
	bool waits = call->sys && call->sys->flags & GR_SF_BLOCKS;
	return waits || gr_cancel_open(call->self) ? gr_signal_wait(call->self, call->nr, call->arg, gr_wait_once) : gr_call_kernel(call);
}

_Noreturn void gr_refuse(struct gr_call *call)
{
	struct gr_panic *p = gr_panic_open(call->self, GR_PANIC_REFUSED);
	if (p) {
		p->got_op = GR_OP_SYS_START;
		p->got_nr = (uint32_t)call->nr;
		if (call->nr == SYS_execve) // of which program: it could be recorded itself
			gr_peek(p->text, call->arg[0], sizeof p->text - 1);
	}
	gr_panic_close();
}

// ---------------------------------------------------------------- the two operations
// Without its hash the numbers of a call are not compared either; of the program's output the length still is.
static bool as_recorded(struct gr_call *call, const struct gr_event *ev)
{
	if (ev->check != GR_CHECK_GONE)
		return gr_call_checks(call, ev->check);
	uint32_t fd = gr_output_of(call);
	return !fd || (ev->object == fd && (uint64_t)ev->result == gr_output_length(call));
}

void gr_call_start(struct gr_call *call)
{
	struct gr_event ev = {.kind = GR_OP_SYS_START, .nr = call->nr + 1, .object = call->object, .flags = call->action};
	if (gr_mode == GR_MODE_RECORD) {
		ev.check = gr_call_check(call);
		gr_call_before(call);
		if (gr_output_of(call)) {
			ev.object = gr_output_of(call);
			ev.result = gr_output_length(call);
		}
		gr_log(call->self, &ev);
		return;
	}
	gr_gate_next(call->self, GR_OP_SYS_START, call->nr + 1, 0, &ev);
	bool same = as_recorded(call, &ev); // what the kernel reads is read at the tick of the start
	gr_call_before(call);
	if (!same && !gr_output_differs(call, &ev))
		gr_gate_desync(call->self, &ev, GR_OP_SYS_START, call->nr + 1, 0, "other arguments");
	call->object = ev.object;
	call->action = ev.flags;
	if (call->action > GR_ACT_IGNORE)
		gr_gate_desync(call->self, &ev, GR_OP_SYS_START, call->nr + 1, 0, "an action that no profile has");
}

void gr_call_end(struct gr_call *call, struct gr_event *ret)
{
	gr_gate_next(call->self, GR_OP_SYS_END, call->nr + 1, 0, ret);
	call->result = ret->result;
}

static bool within(const struct gr_event *ev, uint64_t addr, uint64_t len)
{
	return ev->object >= addr && ev->len <= len && ev->object - addr <= len - ev->len;
}

void gr_call_more(struct gr_call *call, uint64_t addr, uint64_t len)
{
	struct gr_piece *pieces = gr_call_room(call->self);
	struct gr_event ev;
	while (gr_gate_peek(call->self, &ev) && ev.kind == GR_OP_DATA) {
		gr_gate_next(call->self, GR_OP_DATA, 0, 0, &ev);
		bool fits = addr && within(&ev, addr, len);
		int count = addr ? 0 : gr_call_outputs(call, pieces);
		for (int i = 0; i < count; i++)
			fits |= within(&ev, pieces[i].addr, pieces[i].len);
		if (!fits)
			gr_gate_desync(call->self, &ev, GR_OP_DATA, 0, 0, "outputs that do not fit the program's buffers");
		memcpy((void *)ev.object, ev.data, ev.len);
	}
}

// At the tick of the call's end: the recorded outputs, then the stores that are no output.
void gr_call_stores(struct gr_call *call, const struct gr_event *ev)
{
	uint64_t stores = ev->object, piece = stores ? stores + sizeof(uint32_t) : 0;
	if (stores > ev->len || piece > ev->len || !gr_call_inject(call, ev->data, ev->len - piece) ||
	    !gr_stores_apply(ev->data + ev->len - stores, stores, GR_STORE_ALL))
		gr_gate_desync(call->self, ev, GR_OP_SYS_END, call->nr + 1, 0, "outputs that do not fit the program's buffers");
}

// ---------------------------------------------------------------- replaying
static void replay_recorded(struct gr_call *call)
{
	struct gr_event ev;
	gr_output_echo(call);
	gr_call_end(call, &ev);
	call->result = gr_output_result(call, ev.result);
	gr_output_move(call, &ev);
	gr_call_stores(call, &ev);
	gr_call_more(call, 0, 0);
	gr_fd_update(call, ev.flags);
	gr_fd_received(call);
	gr_fd_advance(call);
	gr_call_repeat(call);
}

// A call that takes something away (unmaps, closes, overwrites) does so at its start, one that makes something at its
// end: between the two, other threads may have been given what was free in the recording.
static void replay_native(struct gr_call *call)
{
	struct gr_event ev;
	long real = 0;
	bool makes = gr_fd_numbers(call);
	bool ended = gr_gate_peek(call->self, &ev) && (ev.result == GR_RESTART || ev.result == -EINTR); // by a signal
	if (!makes && !ended) {
		real = call->result = call->nr == SYS_brk ? gr_break(call) : gr_call_kernel(call);
		if (gr_copy_watched)
			gr_call_show_outputs(call);
	}
	gr_call_end(call, &ev);
	if (ended)
		real = ev.result;
	else if (makes) // what failed was perhaps a limit, or a file that is there by now
		real = ev.result < 0 && call->action == GR_ACT_NATIVE ? ev.result : gr_call_kernel(call);
	if (makes && real >= 0 && ev.result >= 0 && real != ev.result) { // the number is the recorded one
		GR_RAW(SYS_dup3, real, ev.result, O_CLOEXEC);
		GR_RAW(SYS_close, real);
		real = ev.result;
	}
	if (call->action == GR_ACT_IGNORE)
		call->result = real;
	else if (real != ev.result) {
		char text[128];
		gr_format(text, sizeof text, "a native call returned %d, while recording %d", real, ev.result);
		gr_gate_desync(call->self, &ev, GR_OP_SYS_END, call->nr + 1, 0, text);
	} else if (ev.check && ev.check != GR_CHECK_GONE && ev.check != gr_call_contents(call))
		gr_gate_desync(call->self, &ev, GR_OP_SYS_END, call->nr + 1, 0, "other contents behind a native call");
	gr_fd_update(call, ev.flags);
}

// ---------------------------------------------------------------- calls that are made in both, whatever the class
// On replay only what is there is closed, and of that nothing which is the engine's.
static void close_range_call(struct gr_call *call)
{
	struct gr_event ev = {.kind = GR_OP_SYS_END, .nr = call->nr + 1};
	bool closes = !(call->arg[2] & CLOSE_RANGE_CLOEXEC);
	gr_call_start(call);
	if (gr_mode == GR_MODE_RECORD) {
		call->result = ev.result = gr_call_kernel(call);
		gr_log(call->self, &ev);
	} else {
		gr_call_end(call, &ev);
	}
	uint64_t last = (uint32_t)call->arg[1] < GR_DESCRIPTORS ? (uint32_t)call->arg[1] : GR_DESCRIPTORS - 1;
	for (uint64_t fd = (uint32_t)call->arg[0]; closes && call->result == 0 && fd <= last; fd++) {
		uint8_t entry = gr_fd_get(fd);
		if (gr_mode == GR_MODE_REPLAY && (entry & GR_FD_CLASS) != GR_FD_NONE && !(entry & GR_FD_RECORDED))
			GR_RAW(SYS_close, fd);
		gr_fd_set(fd, GR_FD_NONE);
	}
}

// What the engine answers by itself: the kernel has actions, masks and stacks of the engine's.
static long signal_call(struct gr_call *call)
{
	const uint64_t *a = call->arg;
	switch (call->nr) {
	case SYS_rt_sigaction:
		return gr_sigaction((int)a[0], a[1], a[2], a[3]);
	case SYS_rt_sigprocmask:
		return gr_sigprocmask(call->self, (int)a[0], a[1], a[2], a[3]);
	default:
		return gr_sigaltstack(call->self, call->frame->rsp, a[0], a[1]);
	}
}

// Whether rdtsc faults is the engine's business; the program finds what it set.
static long counter_call(struct gr_call *call)
{
	if (call->arg[0] == PR_GET_TSC)
		return gr_tsc_get(call->self, call->arg[1]);
	long ret = gr_tsc_set(call->self, call->arg[1]);
	if (gr_tsc_trapped)
		gr_vdso_forget();
	return ret;
}

static bool special(struct gr_call *call)
{
	bool recording = gr_mode == GR_MODE_RECORD;
	struct gr_event ev = {.kind = GR_OP_SYS_END, .nr = call->nr + 1};
	long (*both)(struct gr_call *) = NULL;
	switch (call->nr) {
	case SYS_clone:
		gr_clone(call, call->arg[0], call->arg[1], call->arg[2], call->arg[3], call->arg[4]);
		return true;
	case SYS_clone3:
		gr_clone3(call);
		return true;
	case SYS_fork:
		gr_clone(call, SIGCHLD, 0, 0, 0, 0);
		return true;
	case SYS_vfork:
		gr_clone(call, CLONE_VM | CLONE_VFORK | SIGCHLD, 0, 0, 0, 0);
		return true;
	case SYS_futex:
		gr_futex(call);
		return true;
	case SYS_sched_yield:
		gr_yield(call);
		return true;
	case SYS_exit:
	case SYS_exit_group:
		gr_exit(call);
		return true;
	case SYS_execve:
	case SYS_execveat:
		both = gr_exec;
		break;
	case SYS_close_range:
		close_range_call(call);
		return true;
	case SYS_tgkill: // the library has each thread change its ids in a handler of its own
		if (recording && call->arg[2] == SIGSETXID)
			gr_panic(call->self, GR_PANIC_REFUSED, "setuid, setgid or one of their kind, while several threads live\n"
				 "change the ids before the first thread is made", 0, 0);
		return false;
	case SYS_arch_prctl:
		if (call->arg[0] == 0x1001 || call->arg[0] == 0x1002) // ARCH_SET_GS, ARCH_SET_FS
			gr_refuse(call);
		return false;
	case SYS_rt_sigaction:
	case SYS_rt_sigprocmask:
	case SYS_sigaltstack:
		both = signal_call;
		break;
	case SYS_prctl:
		if (call->arg[0] != PR_SET_TSC && call->arg[0] != PR_GET_TSC)
			return false;
		call->arg[2] = call->arg[3] = call->arg[4] = 0; // they have no meaning, and the library leaves them as they are
		both = counter_call;
		break;
	case SYS_set_tid_address:
		both = gr_tid_address;
		break;
	case SYS_set_robust_list:
		gr_robust_begin(call);
		both = gr_robust_list;
		break;
	case SYS_rseq: // the kernel would write to the area on its own; success keeps glibc content
		gr_call_start(call);
		if (recording)
			gr_log(call->self, &ev);
		else
			gr_call_end(call, &ev);
		return true;
	default:
		return gr_memory(call);
	}
	gr_call_start(call);
	if (!recording) {
		gr_call_end(call, &ev);
		both(call);
		return true;
	}
	bool changes_action = call->nr == SYS_rt_sigaction;
	if (changes_action)
		gr_sigact_lock();
	ev.result = call->result = both(call);
	gr_log(call->self, &ev);
	if (changes_action)
		gr_sigact_unlock();
	return true;
}

// Call sites in text that is about to be unmapped or covered are no longer what they were.
static void text_goes(const struct gr_call *call)
{
	bool covers = call->nr == SYS_mmap && call->arg[3] & 0x10; // MAP_FIXED
	if (call->nr == SYS_munmap || call->nr == SYS_mremap || covers)
		gr_patch_forget(call->arg[0], call->arg[1]);
}

static void replay(struct gr_call *call)
{
	gr_call_start(call);
	if (call->action == GR_ACT_RECORD)
		replay_recorded(call);
	else if (gr_rule_allows(call))
		replay_native(call);
	else
		gr_panic(call->self, GR_PANIC_DESYNC, "the demo wants a call to be made again that its profile does not allow", 0, 0);
	gr_name_self(call);
}

// ---------------------------------------------------------------- processes that are not recorded
// Behind the end of a recording whose program goes on: this thread's calls are its own again, from this one on, which is
// executed where it stands; call sites that are patched make it in their stubs.
static void leave_for_good(struct gr_call *call)
{
	gr_patch_stop();
	gr_sud_disarm();
	gr_signal_quit(call->self);
	call->self->pub.state = GR_T_RUNNING; // what is shown of it from here on is what it does
	gr_thread_leave();
	call->frame->rip = call->self->pub.shown.rip;
	call->frame->gs_base = 0; // the site's stub goes on behind it
}

static void unrecorded(struct gr_call *call)
{
	switch (call->nr) {
	case SYS_rt_sigaction:
	case SYS_rt_sigprocmask:
	case SYS_sigaltstack:
		gr_sigact_lock();
		call->result = signal_call(call);
		gr_sigact_unlock();
		break;
	default:
		call->result = gr_child_call(call);
	}
}

// ---------------------------------------------------------------- signals at both ends
// A call that may wait is issued with a signal held, and ended if it does: a program that waits for a signal shall not
// have it an instant before. With a mask of its own it takes only what is blocked outside of it.
static void signals_before(struct gr_call *call)
{
	uint64_t mask;
	bool waits = call->sys && call->sys->flags & GR_SF_BLOCKS;
	if (gr_signal_none(call->self))
		return;
	if (waits && !gr_signal_temporary(call->nr, call->arg, &mask))
		return;
	struct gr_regs again = *call->frame;
	again.rip = call->self->pub.shown.rip;
	gr_signal_before(call->self, &again);
}

// What a debugger sees at each end of a call that it catches in the recorded process.
static void caught(const struct gr_call *call, enum gr_debug_where where)
{
	struct gr_thread *self = call->self;
	bool wanted = gr_mode == GR_MODE_RECORD && !gr_closed && gr_slot->flags & GR_SLOT_DEBUGGED && call->nr >= 0 && call->nr < GR_SYS_MAX &&
		      gr_ctl->caught[call->nr / 8] & 1 << call->nr % 8;
	if (!wanted)
		return;
	if (where == GR_DEBUG_CALL) {
		gr_show_syscall(self, call->frame);
		self->pub.state = GR_T_ENGINE;
	} else {
		self->pub.shown.rax = call->result;
		self->pub.shown.rip = self->pub.ret_pc;
	}
	gr_debug_call(where, call->nr, NULL);
}

// The last step: the result, or the instruction again; a signal; the program.
static void leave(struct gr_call *call, bool canceled)
{
	struct gr_thread *self = call->self;
	struct gr_regs *frame = call->frame;
	uint64_t mask;
	frame->rax = call->result;
	if (call->result == GR_RESTART && !canceled) {
		frame->rax = call->nr;
		frame->rip = self->pub.shown.rip;
		frame->gs_base = 0; // the site's stub goes on behind it
	}
	if (call->result != GR_RESTART && !canceled)
		caught(call, GR_DEBUG_RETURN);
	if (gr_digest_on() && !call->aside)
		gr_digest_leave(self, frame, true);
	bool temporary = call->result == -EINTR && gr_signal_temporary(call->nr, call->arg, &mask);
	if (call->aside)
		gr_signal_seek(self);
	else if (!canceled && !gr_signal_none(self))
		gr_signal_behind(self, frame, temporary ? &mask : NULL);
	if (gr_mode == GR_MODE_REPLAY)
		gr_gate_out(self, frame);
	self->pub.state = GR_T_RUNNING;
}

// ---------------------------------------------------------------- from entry.S
// A call that trapped: its site is patched when it comes again and again.
void gr_trapped_c(struct gr_regs *frame, struct gr_thread *self)
{
	if (self->nest) {
		gr_vdso_trapped(frame->rip);
	} else { // what the loader is asked about a site is not the program's doing
		gr_show_syscall(self, frame);
		self->pub.state = GR_T_ENGINE;
	}
	if (frame->rax != SYS_rt_sigreturn) // debuggers and unwinders know that site by its bytes
		gr_patch_trapped(self, frame);
	gr_door_c(frame, self);
}

void gr_door_c(struct gr_regs *frame, struct gr_thread *self)
{
	struct gr_call call = {
		.self = self, .frame = frame, .nr = (int)frame->rax, // of which the kernel looks at no more
		.arg = {frame->rdi, frame->rsi, frame->rdx, frame->r10, frame->r8, frame->r9},
	};
	if (self->nest) {
		frame->rax = gr_call_nested(&call);
		if (call.nr == SYS_munmap || call.nr == SYS_mprotect || call.nr == SYS_mremap || call.nr == SYS_mmap)
			gr_storable_changed();
		return;
	}
	gr_signal_check(self, frame);
	// Of futexes, only the program's own are operations. Behind the step there may be no log any more.
	bool known = call.nr >= 0 && call.nr < GR_SYS_MAX && gr_sys_table[call.nr].name;
	if (call.nr != SYS_futex && known && gr_gate_steps(self)) {
		gr_show_syscall(self, frame);
		self->pub.state = GR_T_ENGINE;
		gr_gate_step(self, call.nr == SYS_sched_yield ? GR_STEP_YIELD : GR_STEP_CALL);
		gr_call_cores(&call);
	}
	caught(&call, GR_DEBUG_CALL);
	if (call.nr == SYS_rt_sigreturn)
		gr_signal_return(self, frame);
	call.sys = known ? &gr_sys_table[call.nr] : NULL;
	gr_show_syscall(self, frame);
	if (self->begun == GR_BEGUN_ENDED) { // what is left of it is the signal
		self->begun = GR_BEGUN_NOT;
		call.result = self->begun_result;
		self->pub.state = GR_T_ENGINE;
		leave(&call, false);
		return;
	}
	if (gr_closed && gr_mode == GR_MODE_RECORD && !self->making && !self->begun) { // a thread on a stack of the engine's is born in the door
		leave_for_good(&call);
		return;
	}
	self->pub.state = GR_T_ENGINE;
	if (known && !self->begun)
		signals_before(&call);
	if (gr_mode == GR_MODE_OFF) {
		unrecorded(&call);
		leave(&call, false);
		return;
	}
	if (!known) { // INVARIANT(no-kernel-knows): the answer is the same in each run, so it is no operation
		gr_input_unknown(call.nr);
		call.result = -ENOSYS;
		call.aside = true;
		leave(&call, false);
		return;
	}
	if (call.sys->flags & GR_SF_REFUSED)
		gr_refuse(&call);
	gr_call_narrow(&call);
	gr_call_refine(&call);
	text_goes(&call);
	bool canceled = !self->begun && gr_cancel_acts(self, GR_CANCEL_BEFORE, false);
	if (canceled) {
		call.result = 0;
	} else if (!special(&call)) {
		if (gr_mode == GR_MODE_RECORD)
			gr_call_record(&call);
		else
			replay(&call);
	}
	if (call.sys->cls == GR_CLASS_memory)
		gr_storable_changed();
	if (self->made)
		gr_clone_follow(&call);
	if (!canceled && call.result == -EINTR)
		canceled = gr_cancel_acts(self, GR_CANCEL_BEHIND, false);
	if (canceled) {
		gr_cancel_turn(frame);
		frame->gs_base = 0;
	}
	leave(&call, canceled);
}
