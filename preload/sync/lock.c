// Locks inside the C library as operations; see patch/locks.h.
// Runs in: application threads, on the engine's stack.
// May call: core, log, replay, patch.
// Owns: the order of what happens to a word.
//
// INVARIANT(value-in-order): while recording, an operation is logged and done under one of the engine's own locks, which
// belongs to the word. What the word held is the result: on replay it holds the same, or somebody changes it unseen.
//
// Waiting is no operation: who finds a word taken calls the kernel, comes back and asks again, and each time he asks is one.
#include "../patch/locks.h"

#include "../core/copy.h"
#include "../core/guard.h"
#include "../core/nolibc.h"
#include "../core/ops.h"
#include "../core/page.h"
#include "../core/panic.h"
#include "../core/raw.h"
#include "../digest/digest.h"
#include "../log/log.h"
#include "../log/turn.h"
#include "../replay/gate.h"
#include "../signal/signal.h"

#define WORDS 256
#define TF 0x100

static uint32_t taken[WORDS];

static uint32_t *lock(uint64_t word)
{
	uint32_t *mine = &taken[gr_hash_word(GR_HASH_SEED, word) % WORDS];
	gr_latch(mine);
	return mine;
}

static void record(struct gr_thread *self, const struct gr_lock *site, struct gr_regs *regs, uint64_t word)
{
	uint32_t *mine = lock(word);
	struct gr_event ev = {.kind = GR_OP_LIBRARY_LOCK, .object = word, .result = *(volatile uint32_t *)word};
	gr_log(self, &ev);
	gr_lock_perform(site, regs, word);
	gr_unlatch(mine);
}

static void replay(struct gr_thread *self, const struct gr_lock *site, struct gr_regs *regs, uint64_t word)
{
	struct gr_event ev;
	gr_gate_next(self, GR_OP_LIBRARY_LOCK, 0, word, &ev);
	if (ev.result != *(volatile uint32_t *)word) {
		char text[96];
		gr_format(text, sizeof text, "a lock of the C library holds %d, while recording %d", *(volatile uint32_t *)word,
			  ev.result);
		gr_gate_desync(self, &ev, GR_OP_LIBRARY_LOCK, 0, word, text);
	}
	gr_lock_perform(site, regs, word);
}

static void show(struct gr_thread *self, const struct gr_lock *site, const struct gr_regs *regs)
{
	self->pub.shown = *regs;
	self->pub.shown.fs_base = self->fs_base;
	self->pub.shown.gs_base = 0;
	self->pub.ret_pc = site->addr + site->length;
	self->pub.op = GR_OP_LIBRARY_LOCK;
	self->pub.state = GR_T_ENGINE;
}

// INVARIANT(no-handler-inside): a handler that wants the same lock would wait for its own thread, so it begins where a lock
// was given back.
static void leave(struct gr_thread *self, struct gr_regs *regs, uint64_t word)
{
	if (gr_digest_on())
		gr_digest_leave(self, regs, true);
	if (!gr_signal_none(self) && (gr_mode == GR_MODE_REPLAY || *(volatile uint32_t *)word == 0))
		gr_signal_behind_lock(self, regs);
	if (gr_mode == GR_MODE_REPLAY)
		gr_gate_out(self, regs);
	if (gr_mode == GR_MODE_REPLAY && regs->eflags & TF) // iretq: the first trap comes behind the first instruction
		gr_ctl->trace[gr_slot->trace_len++ % GR_TRACE_MAX] = regs->rip;
	self->pub.state = GR_T_RUNNING;
}

// From entry.S: in front of the instruction, the frame's rip where its stub or it itself begins.
void gr_lock_c(struct gr_regs *frame, struct gr_thread *self);

void gr_lock_c(struct gr_regs *frame, struct gr_thread *self)
{
	const struct gr_lock *site = gr_lock_of_stub(frame->rip);
	uint32_t held;
	if (!site)
		site = gr_lock_at(frame->rip);
	frame->rip = site->addr;
	frame->rcx = gr_lock_rcx;
	frame->r11 = gr_lock_r11;
	frame->gs_base = 0;
	gr_lock_rcx = gr_lock_r11 = 0;
	uint64_t word = gr_lock_word(site, frame);
	if (gr_peek(&held, word, sizeof held) != sizeof held) { // it faults, where it stands
		if (site->native)
			frame->rip = site->native;
		else
			gr_lock_restore(site);
		return;
	}
	if (gr_mode == GR_MODE_OFF || gr_closed || self->nest || !gr_lock_counts(site, word)) {
		gr_lock_perform(site, frame, word);
		frame->rip = site->behind;
		return;
	}
	gr_signal_check(self, frame);
	show(self, site, frame);
	if (gr_turn_on)
		gr_turn_step(self, false);
	if (gr_mode == GR_MODE_RECORD)
		record(self, site, frame, word);
	else
		replay(self, site, frame, word);
	frame->rip = site->addr + site->length;
	leave(self, frame, word);
	frame->rip = site->behind;
}
