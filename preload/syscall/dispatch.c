// The door behind the frame; see dispatch.h.
// Runs in: application threads, on the engine's stack.
// May call: core, log, replay.
// Owns: the rule that decides a call's action.
#include "dispatch.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>

#include "../core/guard.h"
#include "../core/nolibc.h"
#include "../core/ops.h"
#include "../core/panic.h"
#include "../core/raw.h"
#include "../digest/digest.h"
#include "../replay/cancel.h"
#include "../replay/gate.h"
#include "descriptor.h"
#include "fd/input.h"

long gr_call_kernel(const struct gr_call *call)
{
	const uint64_t *a = call->arg;
	return gr_raw6(call->nr, a[0], a[1], a[2], a[3], a[4], a[5]);
}

_Noreturn void gr_refuse(struct gr_call *call)
{
	struct gr_panic *p = gr_panic_open(call->self, GR_PANIC_REFUSED);
	if (p) {
		p->got_op = GR_OP_SYS_START;
		p->got_nr = (uint32_t)call->nr;
		gr_format(p->text, sizeof p->text, "system call %s (%d)",
			  call->sys && call->sys->name ? call->sys->name : "unknown", call->nr);
	}
	gr_panic_close();
}

// ---------------------------------------------------------------- what to do
// The first descriptor argument of a call, or -1.
static long first_fd(const struct gr_call *call)
{
	for (int i = 0; i < GR_FX_MAX; i++)
		if (call->sys->fx[i].kind == GR_FX_FD)
			return (int)call->arg[call->sys->fx[i].arg - 1];
	return -1;
}

// True for a call that opens a file in order to change it.
static bool opens_to_write(const struct gr_call *call)
{
	uint64_t how = 0;
	switch (call->nr) {
	case SYS_creat:
		return true;
	case SYS_open:
		how = call->arg[1];
		break;
	case SYS_openat:
		how = call->arg[2];
		break;
	case SYS_openat2:
		gr_peek(&how, call->arg[2], sizeof how);
		break;
	}
	return how & (O_ACCMODE | O_CREAT | O_TRUNC);
}

// INVARIANT(replay-changes-nothing): what goes to the program's own output, and every file that is opened for writing, is
// recorded whatever the profile says, or every copy of a replay would write it again.
static enum gr_action action_of(const struct gr_call *call)
{
	if (opens_to_write(call))
		return GR_ACT_RECORD;
	if (call->sys->cls == GR_CLASS_memory || call->sys->cls == GR_CLASS_thread)
		return GR_ACT_NATIVE;
	uint8_t fd = gr_fd_get(first_fd(call));
	if ((fd & GR_FD_CLASS) == GR_FD_NONE)
		return gr_ctl->sys_action[call->nr];
	if (fd & GR_FD_RECORDED)
		return GR_ACT_RECORD;
	return call->sys->flags & GR_SF_BY_FD ? gr_ctl->class_action[fd & GR_FD_CLASS] : gr_ctl->sys_action[call->nr];
}

// ioctl, fcntl and prctl are many calls under one number.
static void refine(struct gr_call *call)
{
	struct gr_fx *fx = &call->ioctl;
	if (call->nr == SYS_ioctl) {
		uint32_t request = (uint32_t)call->arg[1];
		const struct gr_ioctl *known = gr_ioctl_find(request);
		if (known)
			*fx = known->fx;
		else if (_IOC_DIR(request) & _IOC_READ)
			*fx = (struct gr_fx){GR_FX_INOUT, 3, GR_LEN_BYTES, 0, _IOC_SIZE(request)};
	} else if (call->nr == SYS_fcntl && (call->arg[1] == F_GETLK || call->arg[1] == F_OFD_GETLK)) {
		*fx = (struct gr_fx){GR_FX_INOUT, 3, GR_LEN_BYTES, 0, sizeof(struct flock)};
	} else if (call->nr == SYS_prctl && call->arg[0] == PR_GET_NAME) {
		*fx = (struct gr_fx){GR_FX_OUT, 2, GR_LEN_BYTES, 0, 16};
	}
}

// ---------------------------------------------------------------- the two operations
void gr_call_start(struct gr_call *call)
{
	uint32_t check = gr_call_check(call);
	gr_call_before(call);
	struct gr_event ev = {.kind = GR_OP_SYS_START, .nr = call->nr + 1, .check = check, .object = call->object};
	if (gr_mode == GR_MODE_RECORD) {
		if (gr_output_of(call)) {
			ev.object = gr_output_of(call);
			ev.result = gr_output_length(call);
		}
		gr_log(call->self, &ev);
		return;
	}
	gr_gate_next(call->self, GR_OP_SYS_START, call->nr + 1, 0, &ev);
	if (ev.check != check && !gr_output_differs(call, &ev))
		gr_gate_desync(call->self, &ev, GR_OP_SYS_START, call->nr + 1, 0, "other arguments");
	call->object = ev.object;
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
	struct gr_piece pieces[GR_CALL_PIECES];
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

static void inject(struct gr_call *call, const struct gr_event *ev)
{
	if (!gr_call_inject(call, ev->data, ev->len))
		gr_gate_desync(call->self, ev, GR_OP_SYS_END, call->nr + 1, 0, "outputs that do not fit the program's buffers");
}

// ---------------------------------------------------------------- recording
static void record(struct gr_call *call, enum gr_action action)
{
	struct gr_piece pieces[GR_CALL_PIECES];
	int count = 0;
	gr_call_start(call);
	if (gr_cancel_open(call->self))
		call->result = gr_raw_unless(&call->self->cancel, call->arg, call->nr);
	else
		call->result = gr_call_kernel(call);
	struct gr_event ev = {.kind = GR_OP_SYS_END, .nr = call->nr + 1, .result = call->result};
	if (action == GR_ACT_RECORD) {
		count = gr_call_outputs(call, pieces);
		if (count < 0)
			gr_refuse(call);
	}
	if (gr_fd_makes(call) && call->result >= 0) {
		int fd = call->result;
		for (int i = 0; i < GR_FX_MAX; i++)
			if (call->sys->fx[i].kind == GR_FX_MAKES_AT)
				fd = *(int *)call->arg[call->sys->fx[i].arg - 1];
		ev.flags = gr_fd_probe(fd);
		if (action == GR_ACT_NATIVE && ev.flags == GR_CLASS_file)
			gr_input_note(fd);
	}
	if (action == GR_ACT_RECORD && ev.flags)
		ev.flags |= GR_FD_RECORDED;
	gr_log_pieces(call->self, &ev, pieces, count, 0);
	gr_fd_update(call, ev.flags);
}

// ---------------------------------------------------------------- replaying
static void replay_recorded(struct gr_call *call)
{
	struct gr_event ev;
	gr_call_start(call);
	gr_output_echo(call);
	gr_call_end(call, &ev);
	call->result = gr_output_result(call, ev.result);
	inject(call, &ev);
	gr_call_more(call, 0, 0);
	gr_fd_update(call, ev.flags);
}

// A call that takes something away (unmaps, closes, overwrites) does so at its start, one that makes something at its
// end: between the two, other threads may have been given what was free in the recording.
static void replay_native(struct gr_call *call, enum gr_action action)
{
	struct gr_event ev;
	long real = 0;
	bool makes = gr_fd_makes(call);
	gr_call_start(call);
	if (!makes)
		real = gr_call_kernel(call);
	gr_call_end(call, &ev);
	if (makes)
		real = gr_call_kernel(call);
	if (makes && real >= 0 && ev.result >= 0 && real != ev.result) { // the number is the recorded one
		GR_RAW(SYS_dup3, real, ev.result, call->arg[1] & O_CLOEXEC);
		GR_RAW(SYS_close, real);
		real = ev.result;
	}
	if (action == GR_ACT_IGNORE)
		call->result = real;
	else if (real != ev.result) {
		char text[128];
		gr_format(text, sizeof text, "a native call returned %d, while recording %d", real, ev.result);
		gr_gate_desync(call->self, &ev, GR_OP_SYS_END, call->nr + 1, 0, text);
	}
	gr_fd_update(call, ev.flags);
}

// ---------------------------------------------------------------- calls that are made in both, whatever the class
static bool is_mapped_recorded(const struct gr_call *call)
{
	uint8_t fd = gr_fd_get((int)call->arg[4]);
	return !(call->arg[3] & 0x20) && (fd & GR_FD_RECORDED || (fd & GR_FD_CLASS) == GR_FD_NONE); // 0x20: MAP_ANONYMOUS
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
		gr_clone(call, 17, 0, 0, 0, 0);
		return true;
	case SYS_vfork:
		gr_clone(call, 0x4000 | 17, 0, 0, 0, 0);
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
		gr_refuse(call);
	case SYS_arch_prctl:
		if (call->arg[0] == 0x1001 || call->arg[0] == 0x1002) // ARCH_SET_GS, ARCH_SET_FS
			gr_refuse(call);
		return false;
	case SYS_mmap:
	case SYS_mremap: {
		bool contents = call->nr == SYS_mmap && is_mapped_recorded(call);
		gr_call_start(call);
		if (recording) {
			call->result = gr_call_kernel(call);
			gr_map_log(call, &ev, contents);
			return true;
		}
		gr_call_end(call, &ev);
		if (!GR_IS_ERR(ev.result) && (call->nr == SYS_mmap ? gr_map_again(call, &ev, contents) : gr_remap_again(call, &ev)) != ev.result)
			gr_gate_desync(call->self, &ev, GR_OP_SYS_END, call->nr + 1, 0, "a mapping that is not free here");
		return true;
	}
	case SYS_rt_sigaction:
		both = gr_sigaction;
		break;
	case SYS_rt_sigprocmask:
		both = gr_sigprocmask;
		break;
	case SYS_sigaltstack:
	case SYS_set_tid_address:
		both = (long (*)(struct gr_call *))gr_call_kernel;
		break;
	case SYS_set_robust_list:
		call->self->robust = call->arg[0];
		call->self->robust_len = call->arg[1];
		both = (long (*)(struct gr_call *))gr_call_kernel;
		break;
	case SYS_rseq: // the kernel would write to the area on its own; success keeps glibc content
		gr_call_start(call);
		if (recording)
			gr_log(call->self, &ev);
		else
			gr_call_end(call, &ev);
		return true;
	default:
		return false;
	}
	gr_call_start(call);
	call->result = both(call);
	ev.result = call->result;
	if (recording)
		gr_log(call->self, &ev);
	else
		gr_call_end(call, &ev);
	return true;
}

static void close_or_copy(struct gr_call *call)
{
	if (call->nr == SYS_close_range && !(call->arg[2] & 4)) {
		const struct gr_sys closes = {.fx = {{GR_FX_CLOSES, 1, 0, 0, 0}}};
		struct gr_call one = *call;
		one.sys = &closes;
		for (uint64_t fd = call->arg[0]; fd <= call->arg[1] && fd < GR_DESCRIPTORS; fd++) {
			one.arg[0] = fd;
			gr_fd_update(&one, 0);
		}
	} else if (call->nr == SYS_fcntl && (call->arg[1] == F_DUPFD || call->arg[1] == F_DUPFD_CLOEXEC)) {
		const struct gr_sys dups = {.fx = {{GR_FX_DUPS, 1, 0, 0, 0}}};
		struct gr_call one = *call;
		one.sys = &dups;
		gr_fd_update(&one, 0);
	}
}

// Behind the end of a recording whose program goes on: this thread's calls are its own again, from this one on, which is
// executed where it stands. False where no instruction stands that could be, and in a forked child.
static bool leave_for_good(struct gr_regs *frame)
{
	const uint8_t *site = (const uint8_t *)frame->rip - 2;
	if (!(gr_ctl->clock & GR_CLOSED) || site[0] != 0x0f || site[1] != 0x05)
		return false;
	gr_sud_disarm();
	frame->rip -= 2;
	return true;
}

// A library function that waits on behalf of an operation gives up when its thread is cancelled, as if its time were up.
static long nested(struct gr_call *call)
{
	struct gr_thread *self = call->self;
	if (gr_mode != GR_MODE_RECORD || call->nr != SYS_futex || !self->point || !gr_cancel_open(self))
		return gr_call_kernel(call);
	long ret = gr_raw_unless(&self->cancel, call->arg, call->nr);
	return ret == -EINTR && __atomic_load_n(&self->cancel, __ATOMIC_SEQ_CST) == 1 ? -ETIMEDOUT : ret;
}

// ---------------------------------------------------------------- from entry.S
void gr_door_c(struct gr_regs *frame, struct gr_thread *self)
{
	struct gr_call call = {
		.self = self,
		.frame = frame,
		.nr = (long)frame->rax,
		.arg = {frame->rdi, frame->rsi, frame->rdx, frame->r10, frame->r8, frame->r9},
	};
	if (call.nr == SYS_rt_sigreturn) {
		self->stack += GR_LEVEL;
		gr_sigreturn(frame->rsp);
	}
	if (gr_mode == GR_MODE_OFF || self->nest) {
		if (!self->nest && leave_for_good(frame))
			return;
		frame->rax = nested(&call);
		return;
	}
	call.sys = call.nr >= 0 && call.nr < GR_SYS_MAX ? &gr_sys_table[call.nr] : NULL;
	gr_show_syscall(self, frame);
	self->pub.state = GR_T_ENGINE;
	if (!call.sys || !call.sys->name || call.sys->flags & GR_SF_REFUSED)
		gr_refuse(&call);
	refine(&call);
	if (gr_cancel_acts(self, GR_CANCEL_BEFORE, false)) {
		gr_cancel_turn(frame);
		call.result = 0;
	} else if (!special(&call)) {
		enum gr_action action = action_of(&call);
		if (action == GR_ACT_REFUSE)
			gr_refuse(&call);
		if (gr_mode == GR_MODE_RECORD)
			record(&call, action);
		else if (action == GR_ACT_RECORD)
			replay_recorded(&call);
		else
			replay_native(&call, action);
		close_or_copy(&call);
		if (call.result == -EINTR && gr_cancel_acts(self, GR_CANCEL_BEHIND, false))
			gr_cancel_turn(frame);
	}
	frame->rax = call.result;
	if (gr_digest_on())
		gr_digest_leave(self, frame, true);
	if (gr_mode == GR_MODE_REPLAY)
		gr_gate_out(self, frame);
	self->pub.state = GR_T_RUNNING;
}
