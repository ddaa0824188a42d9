// Locks inside the C library as operations; see patch/locks.h.
// Runs in: application threads, on the engine's stack.
// May call: core, log, replay, patch.
// Owns: the order of what happens to a word.
//
// INVARIANT(value-in-order): while recording, an operation is logged and done under the latch of the word's cell. What the
// word held is the result: on replay it holds the same, or somebody changes it unseen.
//
// In order `parallel` what takes a free lock and what gives one back is counted (log/edge.h), what the word held goes into the
// hash, and who asks in vain has an event, from which one sees who waits for whom.
//
// Waiting is no operation: who finds a word taken calls the kernel, comes back and asks again, and each time he asks is one. In
// front of that a signal's handler begins which came meanwhile, so it does not wait for whoever holds the lock.
#include "../patch/locks.h"

#include <linux/futex.h>

#include "../core/copy.h"
#include "../core/guard.h"
#include "../core/nolibc.h"
#include "../core/ops.h"
#include "../core/page.h"
#include "../core/panic.h"
#include "../core/raw.h"
#include "../digest/digest.h"
#include "../log/edge.h"
#include "../log/log.h"
#include "../log/turn.h"
#include "../replay/gate.h"
#include "../signal/signal.h"
#include "../syscall/dispatch.h"

#define CELLS 1024
#define TF 0x100
#define ODD_FLAGS 0x40500 // AC, DF, TF
#define ARITHMETIC 0x8d5ULL

static struct { _Alignas(64) uint32_t latch; uint64_t word; } cells[CELLS];

static bool is_plain(const struct gr_lock *site, const struct gr_regs *regs, uint32_t held)
{
	return held == 0 || gr_lock_gives(site, regs);
}

static uint32_t record(struct gr_thread *self, const struct gr_lock *site, struct gr_regs *regs, uint64_t word)
{
	unsigned i = gr_hash_word(GR_HASH_SEED, word) % CELLS;
	gr_latch(&cells[i].latch);
	if (gr_cells && self->made_in_vain)
		gr_edge_rest(self);
	uint32_t held = *(volatile uint32_t *)word;
	if (gr_cells) {
		bool plain = is_plain(site, regs, held);
		gr_edge_library(self, &cells[i].word, word, held, !plain);
		if (plain)
			gr_hold(self, word, !gr_lock_gives(site, regs));
	} else {
		struct gr_event ev = {.kind = GR_OP_LIBRARY_LOCK, .object = word, .result = held};
		gr_log(self, &ev);
	}
	gr_lock_perform(site, regs, word);
	gr_unlatch(&cells[i].latch);
	return held;
}

static uint32_t replay(struct gr_thread *self, const struct gr_lock *site, struct gr_regs *regs, uint64_t word)
{
	struct gr_event ev;
	self->counted = false;
	gr_gate_next(self, GR_OP_LIBRARY_LOCK, 0, word, &ev);
	uint32_t held = *(volatile uint32_t *)word;
	bool same = self->counted ? is_plain(site, regs, held) : ev.result == held;
	if (!same) {
		char text[96];
		gr_format(text, sizeof text, "a lock of the C library holds %d, while recording %d", held,
			  self->counted ? 0 : ev.result);
		gr_gate_desync(self, &ev, GR_OP_LIBRARY_LOCK, 0, word, text);
	}
	gr_lock_perform(site, regs, word);
	return held;
}

// What is in no recording of order `parallel`: in front of an attempt the library looks at a stream's owner, and whoever asked in vain looks
// at the word, and may ask again without having waited. Both leave what they saw in registers. So nobody stands for a
// digest in front of an attempt. INVARIANT(same-behind-a-wait): when he who waited has the lock, these registers are nobody's, because
// the function that waits returns; before that there is no digest.
static void forget_way(struct gr_thread *self, struct gr_regs *regs, uint32_t held)
{
	if (held) {
		gr_digest_pass(self);
		return;
	}
	regs->rdx = regs->rsi = regs->r8 = regs->r9 = regs->r10 = 0;
}

// INVARIANT(no-id-in-flags): in front of a mutex of its own the library compares kernel ids, and behind the instruction it looks at what
// that found; what stands in the flags between these two is no part of a state.
static struct gr_regs as_state(const struct gr_regs *regs)
{
	struct gr_regs ret = *regs;
	ret.eflags &= ~ARITHMETIC;
	return ret;
}

static void show(struct gr_thread *self, const struct gr_lock *site, const struct gr_regs *regs)
{
	self->pub.shown = as_state(regs);
	self->pub.shown.fs_base = self->fs_base;
	self->pub.shown.gs_base = 0;
	self->pub.ret_pc = site->addr + site->length;
	self->pub.op = GR_OP_LIBRARY_LOCK;
	self->pub.state = GR_T_ENGINE;
}

static void go_on(struct gr_thread *self, struct gr_regs *regs)
{
	if (gr_mode == GR_MODE_REPLAY)
		gr_gate_out(self, regs);
	if (gr_mode == GR_MODE_REPLAY && regs->eflags & TF) // iretq: the first trap comes behind the first instruction
		gr_ctl->trace[gr_slot->trace_len++ % GR_TRACE_MAX] = regs->rip;
	self->pub.state = GR_T_RUNNING;
}

// INVARIANT(no-handler-inside): a handler that wants the same lock would wait for its own thread, so it begins where a lock
// was given back.
static void leave(struct gr_thread *self, struct gr_regs *regs, uint64_t word)
{
	if (gr_digest_on()) {
		struct gr_regs state = as_state(regs);
		gr_digest_leave(self, &state, true);
	}
	if (!gr_signal_none(self) && (gr_mode == GR_MODE_REPLAY || *(volatile uint32_t *)word == 0))
		gr_signal_behind_lock(self, regs);
	go_on(self, regs);
}

// Nothing but one more of a run, while recording: no debugger, no signal, no handler that left by siglongjmp.
static bool is_quick(const struct gr_thread *self)
{
	return gr_counting_cells && gr_signal_none(self) && !self->within && !self->made_in_vain;
}

// INVARIANT(no-trace-of-stubs): below the red zone a stub leaves no address behind, but a zero. So does who comes here without one,
// as in a timeline: what the program pushes next is laid over it, with holes.
static void leave_below(const struct gr_regs *frame)
{
	uint64_t none = 0;
	gr_poke_unseen(frame->rsp - GR_LOCK_BELOW, &none, sizeof none);
}

// Where the order is nobody's business (gr_lock_counts): no operation, in order `parallel` in no recording. INVARIANT(never-in-vain): the
// library finds such a word free and gives it back unwanted, always; who waits does so here and not in the library, which
// would leave its frames on the program's stack, where later ones are laid over them with holes.
static void take_aside(struct gr_thread *self, const struct gr_lock *site, struct gr_regs *regs, uint64_t word)
{
	const uint64_t wait[6] = {word, FUTEX_WAIT_PRIVATE, 2};
	uint32_t held = 0;
	if (__atomic_compare_exchange_n((uint32_t *)word, &held, 1, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		return;
	gr_signal_check(self, regs);
	show(self, site, regs);
	while (__atomic_exchange_n((uint32_t *)word, 2, __ATOMIC_SEQ_CST))
		gr_futex_aside(self, wait, true, NULL);
	regs->rip = site->addr + site->length;
	gr_signal_seek(self);
	go_on(self, regs);
}

static void give_aside(struct gr_thread *self, uint64_t word)
{
	const uint64_t wake[6] = {word, FUTEX_WAKE_PRIVATE, 1};
	if (__atomic_exchange_n((uint32_t *)word, 0, __ATOMIC_SEQ_CST) > 1)
		gr_futex_aside(self, wake, false, NULL);
}

static void aside(struct gr_thread *self, const struct gr_lock *site, struct gr_regs *regs, uint64_t word)
{
	uint32_t seen; // what the library is shown in place of the word
	if (gr_lock_takes(site, regs)) {
		take_aside(self, site, regs, word);
		seen = 0;
	} else if (gr_lock_gives(site, regs)) {
		give_aside(self, word);
		seen = 1;
	} else {
		gr_lock_perform(site, regs, word);
		return;
	}
	gr_lock_perform(site, regs, (uint64_t)&seen);
}

// INVARIANT(ended-before-freed): a thread that cannot be what its maker wants is let go by the lock in its descriptor, and ends. The library
// waits until the kernel has cleared its id, or finds that it has, which is no operation: so the engine waits for it here, always,
// and what the maker does next lies behind that end.
static void await_end(struct gr_thread *self, uint64_t word)
{
	const uint64_t wake[6] = {word, FUTEX_WAKE_PRIVATE, 1}; // which the library does behind the instruction
	uint32_t *ended = self->made, id;
	if (word - ((uint64_t)ended & ~0xfffULL) + 0x1000 >= 0x3000)
		return;
	gr_futex_aside(self, wake, false, NULL);
	while ((id = __atomic_load_n(ended, __ATOMIC_ACQUIRE))) {
		const uint64_t wait[6] = {(uint64_t)ended, FUTEX_WAIT, id};
		gr_futex_aside(self, wait, true, NULL);
	}
}

// From patch/lockway.S: in front of the instruction, the frame's rip where its stub or it itself begins. True: back to the stub, which goes
// on behind it.
bool gr_lock_c(struct gr_regs *frame, struct gr_thread *self);

bool gr_lock_c(struct gr_regs *frame, struct gr_thread *self)
{
	const struct gr_lock *stub = gr_lock_of_stub(frame->rip), *site = stub ? stub : gr_lock_at(frame->rip);
	uint64_t seen;
	frame->rip = site->addr;
	frame->rcx = gr_lock_rcx;
	frame->r11 = gr_lock_r11;
	frame->gs_base = 0;
	gr_lock_rcx = gr_lock_r11 = 0;
	uint64_t word = gr_lock_word(site, frame);
	if (gr_peek(&seen, word & ~7ULL, sizeof seen) != sizeof seen) { // it faults, where it stands
		if (site->native)
			frame->rip = site->native;
		else
			gr_lock_restore(site);
		return false;
	}
	if (gr_mode == GR_MODE_OFF || gr_closed || self->nest) {
		gr_lock_perform(site, frame, word);
	} else if (!gr_lock_counts(site, word)) {
		aside(self, site, frame, word);
	} else if (is_quick(self)) {
		record(self, site, frame, word);
	} else {
		gr_signal_check(self, frame);
		show(self, site, frame);
		if (gr_lock_waited(site) && !gr_signal_none(self))
			gr_signal_before_lock(self, frame);
		bool unsteady = gr_digest_beside();
		if (gr_gate_steps(self) && !(unsteady && !gr_lock_gives(site, frame)))
			gr_gate_step(self, gr_lock_gives(site, frame) ? GR_STEP_GIVES : GR_STEP_LOCK);
		bool gives = gr_lock_gives(site, frame);
		uint32_t held = (gr_mode == GR_MODE_RECORD ? record : replay)(self, site, frame, word);
		if (self->made_in_vain && gives)
			await_end(self, word);
		if (unsteady && gr_lock_waited(site))
			forget_way(self, frame, held);
		frame->rip = site->addr + site->length;
		leave(self, frame, word);
	}
	frame->rip = site->behind;
	if (stub && !(frame->eflags & ODD_FLAGS))
		return true;
	leave_below(frame);
	return false;
}
