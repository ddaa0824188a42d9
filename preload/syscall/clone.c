// Births and deaths: threads are made and end in the door, so those that libc makes for itself are seen too.
// Runs in: application threads, on the engine's stack; gr_thread_born in the new thread.
// May call: core, log, replay.
// Owns: the numbering of threads.
#include <dlfcn.h>
#include <sched.h>
#include <stdlib.h>

#include "../core/nolibc.h"
#include "../core/ops.h"
#include "../core/page.h"
#include "../core/panic.h"
#include "../core/raw.h"
#include "../heap/heap.h"
#include "../heap/stack.h"
#include "../replay/gate.h"
#include "../replay/park.h"
#include "dispatch.h"

struct clone3_args { uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls; };

// ---------------------------------------------------------------- how many there are
// Threads that have not begun to end. The library's own count is held above it, because it is no operation.
static uint32_t live = 1;

void gr_clone_init(void)
{
	int *count = dlvsym(RTLD_DEFAULT, "__nptl_nthreads", "GLIBC_PRIVATE");
	if (count)
		++*count;
}

// INVARIANT(one-last-thread): exactly one thread finds that no other is left; it does what the library would do, in the
// place of its last system call.
static bool is_last(struct gr_thread *self)
{
	struct gr_event ev = {.kind = GR_OP_LAST};
	if (gr_mode == GR_MODE_RECORD) {
		if (__atomic_sub_fetch(&live, 1, __ATOMIC_SEQ_CST))
			return false;
		gr_log(self, &ev);
		return true;
	}
	if (!gr_gate_peek(self, &ev) || ev.kind != GR_OP_LAST)
		return false;
	gr_gate_next(self, GR_OP_LAST, 0, 0, &ev);
	return true;
}

// ---------------------------------------------------------------- threads
// The child leaves the engine by a frame of its own: the parent's registers, the new stack, result 0.
static struct gr_thread *prepare(struct gr_call *call, uint32_t index, uint64_t stack, uint64_t flags, uint64_t ctid, uint64_t tls)
{
	struct gr_thread *child = gr_thread_alloc(index);
	if (!child)
		gr_panic(call->self, GR_PANIC_REFUSED, "more than %u threads at a time", GR_LIVE_THREADS, 0);
	struct gr_regs *frame = (struct gr_regs *)child->stack - 1;
	*frame = *call->frame;
	frame->rax = 0;
	frame->rsp = stack;
	child->fs_base = tls;
	child->stack -= GR_LEVEL;
	child->ctid = flags & CLONE_CHILD_CLEARTID ? (uint32_t *)ctid : NULL;
	child->pub.shown = *frame;
	child->pub.shown.fs_base = tls;
	child->pub.ret_pc = frame->rip;
	return child;
}

// INVARIANT(born-at-start): the new thread's number goes with the start of the call, because its first operation may come
// before the call's end.
static void make_thread(struct gr_call *call, uint64_t flags, uint64_t stack, uint64_t ctid, uint64_t tls)
{
	struct gr_event ev = {.kind = GR_OP_SYS_END, .nr = call->nr + 1};
	bool recording = gr_mode == GR_MODE_RECORD;
	const uint64_t *a = call->arg;
	if (!(flags & CLONE_SETTLS) || !stack)
		gr_refuse(call);
	if (recording)
		call->object = __atomic_fetch_add(&gr_ctl->threads, 1, __ATOMIC_RELAXED);
	gr_call_start(call);
	bool refused = !recording && gr_gate_peek(call->self, &ev) && ev.result < 0;
	if (!refused) {
		struct gr_thread *child = prepare(call, call->object, stack, flags, ctid, tls);
		child->pub.recorded_tid = ev.result;
		__atomic_add_fetch(&live, 1, __ATOMIC_SEQ_CST);
		call->result = gr_clone_thread(call->nr, a[0], a[1], a[2], a[3], a[4], child);
		if (call->result < 0 && !recording)
			gr_panic(call->self, GR_PANIC_DESYNC, "the kernel refuses a thread here (error %d)", -call->result, 0);
		if (call->result < 0) {
			__atomic_sub_fetch(&live, 1, __ATOMIC_SEQ_CST);
			gr_thread_release(child);
		} else {
			gr_stack_born(tls); // the kernel has written its id, so nobody takes it for free
			call->self->making = 0;
		}
		if (call->result >= 0 && !recording)
			gr_park_await(child);
	}
	if (!recording) {
		gr_call_end(call, &ev);
		return;
	}
	ev.result = call->result;
	gr_log(call->self, &ev);
}

static void adopt_heap(struct gr_thread *self, int number)
{
	self->heap = gr_heap_take(number);
	if (!self->heap)
		gr_panic(self, GR_PANIC_REFUSED, "no address space for another heap", 0, 0);
}

// From entry.S, in the new thread, on its engine stack.
void gr_thread_born(struct gr_thread *self)
{
	struct gr_event ev = {.kind = GR_OP_START};
	gr_self = self;
	self->pub.tid = gr_tid();
	gr_sud_arm();
	if (gr_mode == GR_MODE_RECORD) {
		self->pub.recorded_tid = self->pub.tid;
		adopt_heap(self, -1);
		ev.object = self->heap->number + 1;
		gr_log(self, &ev);
	} else {
		gr_gate_open(self);
		gr_park(self);
		gr_gate_on_born(self);
		gr_gate_next(self, GR_OP_START, 0, 0, &ev);
		adopt_heap(self, ev.object - 1);
		gr_gate_out(self, (struct gr_regs *)(self->stack + GR_LEVEL) - 1);
	}
	self->pub.state = GR_T_RUNNING;
}

void gr_exit(struct gr_call *call)
{
	struct gr_thread *self = call->self;
	struct gr_event ev = {.kind = GR_OP_EXIT, .result = call->arg[0]};
	if (call->nr == SYS_exit_group) {
		gr_call_start(call);
		if (gr_mode == GR_MODE_REPLAY)
			gr_gate_behind(self); // ends the process when the order is used up
		GR_RAW(SYS_exit_group, call->arg[0]);
	}
	if (is_last(self)) {
		struct gr_regs *frame = call->frame;
		frame->rsp = ((frame->rsp - 256) & ~15ULL) - 8;
		*(uint64_t *)frame->rsp = 0;
		frame->rdi = 0;
		frame->rip = (uint64_t)exit;
		return;
	}
	self->pub.ret_pc = 0;
	if (gr_mode == GR_MODE_RECORD) {
		gr_log(self, &ev);
		gr_heap_give(self->heap);
		__atomic_store_n(&self->pub.state, GR_T_EXITED, __ATOMIC_RELEASE);
	} else {
		gr_gate_next(self, GR_OP_EXIT, 0, 0, &ev);
		gr_heap_give(self->heap);
		gr_gate_leave(self);
	}
	GR_RAW(SYS_exit, call->arg[0]);
}

// ---------------------------------------------------------------- processes
// While recording, a child runs for real and on its own, without the engine; on replay there is none. A child that
// would share memory (vfork, posix_spawn) gets a copy: what it writes into its parent's memory is lost.
static void make_process(struct gr_call *call, uint64_t flags, uint64_t stack, uint64_t ptid, uint64_t ctid)
{
	struct gr_event ev = {.kind = GR_OP_SYS_END, .nr = call->nr + 1};
	if (flags & CLONE_PIDFD)
		gr_refuse(call);
	gr_call_start(call);
	if (gr_mode == GR_MODE_RECORD) {
		call->result = GR_RAW(SYS_clone, flags & ~(uint64_t)CLONE_VM, 0, ptid, ctid, 0);
		if (call->result == 0) {
			gr_mode = GR_MODE_OFF;
			if (stack)
				call->frame->rsp = stack;
			return;
		}
		ev.result = call->result;
		gr_log(call->self, &ev);
		return;
	}
	gr_call_end(call, &ev);
	if (ev.result > 0 && flags & CLONE_PARENT_SETTID)
		*(int *)ptid = ev.result;
}

void gr_clone(struct gr_call *call, uint64_t flags, uint64_t stack, uint64_t ptid, uint64_t ctid, uint64_t tls)
{
	if (flags & CLONE_THREAD)
		make_thread(call, flags, stack, ctid, tls);
	else
		make_process(call, flags, stack, ptid, ctid);
}

void gr_clone3(struct gr_call *call)
{
	struct clone3_args args = {0};
	gr_peek(&args, call->arg[0], call->arg[1] < sizeof args ? call->arg[1] : sizeof args);
	uint64_t stack = args.stack ? args.stack + args.stack_size : 0;
	if (args.flags & CLONE_THREAD)
		make_thread(call, args.flags, stack, args.child_tid, args.tls);
	else
		make_process(call, args.flags | args.exit_signal, stack, args.parent_tid, args.child_tid);
}
