// Births and deaths: threads are made and end in the door, so those that libc makes for itself are seen too.
// Runs in: application threads, on the engine's stack; gr_thread_born in the new thread.
// May call: core, log, replay.
// Owns: the numbering of threads.
#include <dlfcn.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>

#include "../core/copy.h"
#include "../core/guard.h"
#include "../core/nolibc.h"
#include "../core/ops.h"
#include "../core/page.h"
#include "../core/panic.h"
#include "../core/raw.h"
#include "../digest/mask.h"
#include "../heap/heap.h"
#include "../heap/stack.h"
#include "../log/edge.h"
#include "../log/together.h"
#include "../log/turn.h"
#include "../patch/locks.h"
#include "../patch/patch.h"
#include "../replay/gate.h"
#include "../replay/park.h"
#include "../signal/signal.h"
#include "dispatch.h"
#include "fd/refer.h"
#include "descriptor.h"
#include "fd/input.h"
#include "memory/outside.h"
#include "process/process.h"

struct clone3_args { uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls; };

// ---------------------------------------------------------------- how many there are
// Threads that have not begun to end. The library's own count is held above it, because it is no operation.
static uint32_t live = 1;
static int *library_count;

void gr_clone_init(void)
{
	library_count = dlvsym(RTLD_DEFAULT, "__nptl_nthreads", "GLIBC_PRIVATE");
}

// INVARIANT(first-thread-is-seen): the library finds its count to be 1 when it makes the second thread: from then on putc, getc and
// their like take the locks of their streams. Behind that it is held.
static void hold_count(void)
{
	if (library_count)
		__atomic_add_fetch(library_count, 1, __ATOMIC_RELAXED);
	library_count = NULL;
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
		gr_panic(call->self, GR_PANIC_REFUSED, "more than %u threads at a time\nlet the program make fewer", GR_LIVE_THREADS, 0);
	struct gr_regs *frame = (struct gr_regs *)child->stack - 1;
	*frame = *call->frame;
	frame->rax = 0;
	frame->rsp = stack;
	child->fs_base = tls;
	child->sigmask = call->self->sigmask;
	child->name = call->self->name;
	child->altstack.flags = SS_DISABLE;
	child->tsc = call->self->tsc;
	child->together = call->self->together; // it inherits the cores
	child->stack -= GR_LEVEL;
	child->detached = call->self->making_joinable ? GR_JOINABLE : GR_BORN_DETACHED;
	child->ctid = flags & CLONE_CHILD_CLEARTID ? (uint32_t *)ctid : NULL;
	child->clears = child->ctid;
	child->pub.parent = call->self->pub.index;
	child->pub.shown = *frame;
	child->pub.shown.fs_base = tls;
	child->pub.shown.gs_base = 0;
	child->pub.ret_pc = frame->rip;
	return child;
}

// From the second thread on they are operations; a program with one pays nothing.
static void order_locks(struct gr_thread *self)
{
	struct gr_event ev = {.kind = GR_OP_LIBRARY_LOCK};
	uint64_t where = 0;
	if (gr_lock_sum() || !gr_ctl->knob[GR_KNOB_locks])
		return;
	const char *why = gr_lock_patch(self, &where);
	if (why)
		gr_panic(self, GR_PANIC_REFUSED, "%s (0x%x)\nrecord with --set engine.locks=off: the order of locks inside the C library is not recorded then",
			 (uint64_t)why, where);
	ev.object = gr_lock_sum();
	if (gr_mode == GR_MODE_RECORD)
		gr_log(self, &ev);
	else
		gr_gate_next(self, GR_OP_LIBRARY_LOCK, 0, gr_lock_sum(), &ev);
}

// INVARIANT(born-at-start): the new thread's number goes with the start of the call, because its first operation may come
// before the call's end.
static void make_thread(struct gr_call *call, uint64_t flags, uint64_t stack, uint64_t ptid, uint64_t ctid, uint64_t tls)
{
	struct gr_event ev = {.kind = GR_OP_SYS_END, .nr = call->nr + 1};
	bool recording = gr_mode == GR_MODE_RECORD;
	const uint64_t *a = call->arg;
	if (!(flags & CLONE_SETTLS) || !stack)
		gr_refuse(call);
	order_locks(call->self);
	hold_count();
	if (recording)
		call->object = __atomic_fetch_add(&gr_ctl->threads, 1, __ATOMIC_RELAXED);
	gr_call_start(call);
	// Where the recording ends in the middle of the call, the thread exists if it came to an operation.
	bool returned = !recording && gr_gate_peek(call->self, &ev);
	bool refused = !recording && (returned ? ev.result < 0 : !gr_gate_has(call->object));
	if (!refused) {
		struct gr_thread *child = prepare(call, call->object, stack, flags, ctid, tls);
		child->pub.recorded_tid = returned ? ev.result : 0;
		__atomic_add_fetch(&live, 1, __ATOMIC_SEQ_CST);
		// A replay is fenced in, and a fence cannot look into clone3's arguments, which lie in memory.
		call->result = recording ? gr_clone_thread(call->nr, a[0], a[1], a[2], a[3], a[4], child)
					 : gr_clone_thread(SYS_clone, flags, stack, ptid, ctid, tls, child);
		if (call->result < 0 && !recording)
			gr_panic(call->self, GR_PANIC_REFUSED, GR_NO_THREAD, -call->result, 0);
		if (call->result < 0) {
			__atomic_sub_fetch(&live, 1, __ATOMIC_SEQ_CST);
			gr_thread_release(child);
		} else {
			if (gr_turn_on)
				gr_turn_born(child);
			call->self->made = flags & CLONE_CHILD_CLEARTID ? (uint32_t *)ctid : NULL;
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

// INVARIANT(ended-before-freed): see sync/lock.c.
void gr_clone_follow(const struct gr_call *call)
{
	bool asks = call->nr == SYS_sched_setaffinity || call->nr == SYS_sched_setscheduler;
	call->self->made_in_vain |= asks && call->self->made && call->result < 0;
}

static void adopt_heap(struct gr_thread *self, int number)
{
	self->heap = gr_heap_take(number);
	if (!self->heap)
		gr_panic(self, GR_PANIC_REFUSED, "no address space for another heap\n" GR_HEAP_ROOM, 0, 0);
}

// glibc 2.41 begins a thread by writing its kernel id in digits below its stack pointer, the name of its stack; parts of that come to
// light in later frames and registers. INVARIANT(named-as-recorded): up to its first call a thread of a replay reads the
// recording's id in its descriptor. Nobody else runs meanwhile.
static void tell_id(const struct gr_thread *self, uint32_t id)
{
	if (gr_mode == GR_MODE_REPLAY && gr_thread_of_library(self))
		*self->ctid = id;
}

// From entry.S, in the new thread, on its engine stack.
void gr_thread_born(struct gr_thread *self)
{
	struct gr_event ev = {.kind = GR_OP_START};
	gr_self = self;
	self->pub.tid = gr_tid();
	gr_sud_arm();
	gr_signal_born(self);
	if (gr_mode == GR_MODE_RECORD) {
		self->pub.recorded_tid = self->pub.tid;
		if (gr_turn_on)
			gr_turn_begin(self);
		adopt_heap(self, -1);
		ev.object = self->heap->number + 1;
		ev.result = self->pub.tid;
		ev.check = self->pub.parent;
		gr_log(self, &ev);
	} else {
		gr_gate_open(self);
		gr_park(self);
		gr_gate_on_born(self);
		gr_gate_next(self, GR_OP_START, 0, 0, &ev);
		adopt_heap(self, ev.object - 1);
		gr_signal_seek(self);
		gr_gate_out(self, (struct gr_regs *)(self->stack + GR_LEVEL) - 1);
		tell_id(self, (uint32_t)ev.result);
	}
	self->pub.state = GR_T_RUNNING;
}

void gr_robust_begin(const struct gr_call *call)
{
	if (!call->self->robust)
		tell_id(call->self, call->self->pub.tid);
}

// Where others wait for the thread's end, from here on.
long gr_tid_address(struct gr_call *call)
{
	call->self->clears = (uint32_t *)call->arg[0];
	return gr_call_kernel(call);
}

long gr_robust_list(struct gr_call *call)
{
	call->self->robust = call->arg[0];
	call->self->robust_len = call->arg[1];
	return gr_call_kernel(call);
}

// INVARIANT(one-frees): the library takes it for joinable up to here. Recording, the latch is held from here on where it was not
// detached: who detaches it from then on does so behind its end.
static bool was_detached(struct gr_thread *self)
{
	struct gr_event ev = {.kind = GR_OP_DETACH, .object = self->fs_base};
	if (gr_mode == GR_MODE_RECORD) {
		gr_latch(&gr_thread_ending);
		if (self->detached != GR_DETACHED)
			return false;
		gr_log(self, &ev);
		gr_unlatch(&gr_thread_ending);
		return true;
	}
	if (!gr_gate_peek(self, &ev) || ev.kind != GR_OP_DETACH)
		return false;
	gr_gate_next(self, GR_OP_DETACH, 0, self->fs_base, &ev);
	return true;
}

void gr_exit(struct gr_call *call)
{
	struct gr_thread *self = call->self;
	struct gr_event ev = {.kind = GR_OP_EXIT, .result = call->arg[0]};
	if (call->nr == SYS_exit_group) {
		if (gr_mode == GR_MODE_RECORD)
			gr_outside_end();
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
		frame->gs_base = 0;
		return;
	}
	self->pub.ret_pc = 0;
	gr_signal_exit(self);
	bool detached = was_detached(self);
	if (detached)
		GR_REAL(self, pthread_detach, self->fs_base);
	if (gr_mode == GR_MODE_RECORD)
		gr_log(self, &ev);
	else
		gr_gate_next(self, GR_OP_EXIT, 0, 0, &ev);
	if (self->pub.index == 0) // not before: at a digest it may still stand in front of it
		gr_mask_main_left(self, call->frame->rsp);
	gr_heap_give(self->heap);
	if (gr_mode == GR_MODE_RECORD) {
		gr_log_let_go(self);
		__atomic_store_n(&self->pub.state, GR_T_EXITED, __ATOMIC_RELEASE);
		if (!detached)
			gr_unlatch(&gr_thread_ending);
		if (gr_turn_on)
			gr_turn_leave(self);
	} else {
		gr_gate_leave(self);
	}
	uint32_t looked_at = gr_mode == GR_MODE_RECORD ? GR_SLOT_DEBUGGED : GR_SLOT_HOLD_END;
	if (self->pub.tid == (uint32_t)gr_pid() && self->clears && gr_slot->flags & looked_at)
		gr_park_leader(self);
	gr_thread_ended(self);
	GR_RAW(SYS_exit, call->arg[0]);
}

// ---------------------------------------------------------------- processes
struct birth { uint64_t flags, stack, ptid, ctid, pidfd; };

static _Noreturn void refuse(struct gr_call *call, const char *text)
{
	gr_panic(call->self, GR_PANIC_REFUSED, "%s", (uint64_t)text, 0);
}

static void check_birth(struct gr_call *call, uint64_t flags)
{
	if (flags & CLONE_VM && !(flags & CLONE_VFORK))
		refuse(call, "a process that shares the program's memory and runs beside it"
			     "\nuse threads in its place, if the program lets you choose");
	if (flags & (CLONE_FILES | CLONE_FS | CLONE_SIGHAND | CLONE_SETTLS))
		refuse(call, "a child that shares the program's descriptors, directory or handlers"
			     "\nrecord without the part of the program that makes it");
	if (!(flags & CLONE_VM) && gr_view_shared_writable())
		refuse(call, "a fork with memory that both processes can change"
			     "\nmake the program use threads, or no worker processes, if it lets you choose");
}

// The kernel's part of it. The child is a copy also where the program asked for one that shares its memory, so that the
// engine in it stands on its own.
static long bear(const struct gr_call *call, const struct birth *birth)
{
	uint64_t flags = birth->flags & ~(uint64_t)CLONE_VM;
	if (call->nr != SYS_clone3)
		return GR_RAW(SYS_clone, flags, 0, birth->ptid, birth->ctid, 0);
	uint64_t args[16] = {0};
	uint64_t size = call->arg[1] < sizeof args ? call->arg[1] : sizeof args;
	gr_peek(args, call->arg[0], size);
	args[0] &= ~(uint64_t)CLONE_VM;
	args[5] = args[6] = 0; // the stack: it goes on where it is, and leaves the engine by the frame
	return GR_RAW(SYS_clone3, args, size);
}

// What the kernel stored for the parent, as stores of the call.
static void parents_words(const struct gr_call *call, const struct birth *birth, struct gr_stores *stores)
{
	int word;
	if (birth->flags & CLONE_PARENT_SETTID && birth->ptid && gr_peek(&word, birth->ptid, sizeof word) == sizeof word)
		gr_store_add(stores, GR_STORE_BYTES, birth->ptid, sizeof word, 0, &word);
	if (birth->flags & CLONE_PIDFD && gr_peek(&word, birth->pidfd, sizeof word) == sizeof word) {
		gr_store_add(stores, GR_STORE_BYTES, birth->pidfd, sizeof word, 0, &word);
		gr_store_add(stores, GR_STORE_FD, word, 0, GR_CLASS_pipe | GR_FD_RECORDED, NULL);
		gr_fd_set(word, GR_CLASS_pipe | GR_FD_RECORDED);
	}
	(void)call;
}

// INVARIANT(child-off-the-record): a child runs for real while recording and is no part of the demo; on replay there is
// none. What its parent sees of it are results of calls and the stores of a child that the program believes to share
// its memory.
static void make_process(struct gr_call *call, const struct birth *birth)
{
	struct gr_event ev = {.kind = GR_OP_SYS_END, .nr = call->nr + 1};
	bool shares = birth->flags & CLONE_VM;
	gr_call_start(call);
	if (gr_mode == GR_MODE_REPLAY) {
		gr_call_end(call, &ev);
		gr_call_stores(call, &ev);
		return;
	}
	check_birth(call, birth->flags);
	gr_refer_stop(call->self);
	gr_rule_children();
	gr_fd_inherited();
	if (shares && !gr_child_prepare(call->self))
		refuse(call, "a child without room for what it changes");
	uint64_t all = ~0ULL, before;
	gr_together_apart();
	GR_RAW(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, 8);
	gr_sigact_lock(); // or somebody who is not in the child might hold it there for ever
	call->self->seat.stores = true; // the kernel, its number
	if (gr_turn_on)
		gr_turn_call(call->self, false); // with CLONE_VFORK, until the child's exec or end
	call->result = bear(call, birth);
	if (call->result > 0)
		gr_input_child();
	gr_sigact_unlock();
	if (call->result == 0) {
		gr_mode = GR_MODE_OFF;
		// A handler that made the child may return in it, to behind a patched site, without the engine. Where there
		// is no /proc, the text stays as it is and calls are made in the stubs.
		gr_patch_undo(call->self);
		gr_turn_on = gr_turn_steps = gr_counting = gr_counting_cells = gr_edges = gr_cells = false;
		if (birth->stack)
			call->frame->rsp = birth->stack;
		if (shares) {
			gr_signal_followed(call->self);
			gr_child_born(call->self);
		} else {
			gr_signal_forked(call->self);
			gr_thread_leave();
		}
		return;
	}
	GR_RAW(SYS_rt_sigprocmask, SIG_SETMASK, &before, 0, 8);
	if (gr_turn_on)
		gr_turn_back(call->self);
	call->self->seat.stores = false;
	uint8_t *room = (uint8_t *)gr_room(call->self, 0x1000);
	struct gr_stores stores = {room, room + 0x1000, !room};
	uint64_t len = 0;
	const uint8_t *report = shares ? gr_child_report(call->self, &len) : NULL;
	if (shares && gr_child_traced(call->self)) {
		call->nr = SYS_ptrace;
		call->sys = &gr_sys_table[SYS_ptrace];
		gr_refuse(call);
	}
	if (len == ~0ULL || !gr_stores_apply(report, len, GR_STORE_MAPPINGS))
		refuse(call, "a vfork child that changes more of its parent's memory than can be followed");
	if (call->result > 0)
		parents_words(call, birth, &stores);
	ev.result = call->result;
	ev.object = len + (stores.at - room);
	// One piece: the child's report and the kernel's words, in a row.
	const struct gr_piece pieces[] = {{(uint64_t)report, len, false}, {(uint64_t)room, stores.at - room, false}};
	gr_log_joined(call->self, &ev, pieces, 2);
	gr_stores_apply(report, len, GR_STORE_CONTENTS);
	if (shares)
		gr_child_forget(call->self);
}

void gr_clone(struct gr_call *call, uint64_t flags, uint64_t stack, uint64_t ptid, uint64_t ctid, uint64_t tls)
{
	if (flags & CLONE_THREAD)
		make_thread(call, flags, stack, ptid, ctid, tls);
	else
		make_process(call, &(struct birth){flags, stack, ptid, ctid, ptid});
}

void gr_clone3(struct gr_call *call)
{
	struct clone3_args args = {0};
	uint64_t size = call->arg[1] < sizeof args ? call->arg[1] : sizeof args;
	if (size < 64 || call->arg[1] > 4096 || gr_peek(&args, call->arg[0], size) != size) { // the kernel has the error's number
		struct gr_event ev = {.kind = GR_OP_SYS_END, .nr = call->nr + 1};
		gr_call_start(call);
		if (gr_mode == GR_MODE_REPLAY) {
			gr_call_end(call, &ev);
			return;
		}
		call->result = ev.result = gr_call_kernel(call);
		gr_log(call->self, &ev);
		return;
	}
	uint64_t stack = args.stack ? args.stack + args.stack_size : 0;
	if (args.flags & CLONE_THREAD)
		make_thread(call, args.flags, stack, args.parent_tid, args.child_tid, args.tls);
	else
		make_process(call, &(struct birth){args.flags, stack, args.parent_tid, args.child_tid, args.pidfd});
}
