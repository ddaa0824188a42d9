// The gate of a replay; see gate.h.
// Runs in: application threads while replaying.
// May call: core, log/codec, ctl.
// Owns: gr_replay.
#include "gate.h"

#include <linux/futex.h>
#include <signal.h>

#include "../core/copy.h"
#include "../core/nolibc.h"
#include "../core/page.h"
#include "../core/panic.h"
#include "../core/raw.h"
#include "../log/edge.h"
#include "../log/together.h"
#include "../ctl/slot.h"
#include "halt.h"
#include "park.h"

bool gr_quick_known;
struct gr_replay gr_replay = {.final = ~0u, .trace_tick = ~0ULL};
void (*gr_gate_on_command)(struct gr_thread *self, enum gr_cmd cmd);
void (*gr_gate_on_born)(struct gr_thread *self);
void (*gr_gate_on_stand)(enum gr_slot_state state);
void (*gr_gate_on_rewind)(bool back);
void (*gr_gate_on_taken)(enum gr_op op, uint16_t nr);
void (*gr_gate_on_out)(void);
void (*gr_gate_on_segment)(uint64_t tick);
void (*gr_gate_on_signal)(struct gr_thread *self);

static const struct gr_run *run_at(uint64_t row)
{
	return (const struct gr_run *)((const char *)gr_image + gr_image->runs_off) + row;
}

bool gr_gate_has(uint32_t index)
{
	const struct gr_stream *streams = (const struct gr_stream *)((const char *)gr_image + gr_image->streams_off);
	return index < gr_image->threads && streams[index].ops;
}

void gr_gate_open(struct gr_thread *self)
{
	const char *base = (const char *)gr_image;
	const struct gr_stream *stream = (const struct gr_stream *)(base + gr_image->streams_off) + self->pub.index;
	uint64_t done = self->pos - self->stream;
	// A thread that was being made when the recording ended has no stream: it never gets a turn.
	if (self->pub.index >= gr_image->threads)
		return;
	self->stream = (uint8_t *)base + stream->off;
	self->pos = self->stream + done;
	self->end = self->stream + stream->len;
	self->left = stream->ops - self->pub.ops;
}

// INVARIANT(ends-are-known): a thread stands behind its last operation only in the image that a timeline ends with, of which
// no copy lives on. So where there is more by now, none had run ahead of a segment that it should have run before.
static void look_for_more(void)
{
	uint32_t grown = __atomic_load_n(&gr_image->grown, __ATOMIC_ACQUIRE);
	if (gr_replay.grown == grown)
		return;
	gr_replay.grown = grown;
	for (uint32_t i = 0; i < GR_LIVE_THREADS; i++) {
		struct gr_thread *t = gr_thread_block(i);
		if (!gr_thread_lives(t))
			continue;
		gr_gate_open(t);
		if (t->behind && t->left)
			gr_panic(t, GR_PANIC_BUG, "thread %u went behind an operation that was not its last", t->pub.index + 1, 0);
	}
}

// ---------------------------------------------------------------- standing still
void gr_gate_stand(struct gr_thread *self, enum gr_slot_state state)
{
	self->quick = 0;
	uint32_t before = self->pub.state;
	// Read first: behind the announcement the controller may attach a debugger for the *next* run.
	bool debugged = gr_slot->flags & GR_SLOT_DEBUGGED;
	gr_gate_on_stand(state);
	gr_slot->tick = gr_replay.tick;
	self->pub.state = state == GR_S_TRAPPED ? GR_T_TRAPPED : GR_T_PARKED;
	gr_slot_announce(state);
	if (debugged)
		gr_debug_trap();
	for (;;) {
		enum gr_cmd cmd = gr_slot_command(&gr_replay.seen);
		if (cmd == GR_CMD_DIE)
			GR_RAW(SYS_exit_group, 0);
		if (cmd == GR_CMD_RUN)
			look_for_more();
		gr_gate_on_command(self, cmd);
		if (cmd == GR_CMD_RUN)
			break;
	}
	self->pub.state = before;
	__atomic_store_n(&gr_slot->state, GR_S_RUNNING, __ATOMIC_RELEASE);
}

// The end of the order, where nobody wants to look around: the process ends as the recorded one did.
static _Noreturn void finish(void)
{
	gr_slot->tick = gr_replay.tick;
	gr_slot_announce(GR_S_ENDED);
	if (gr_ctl->end_kind == 2) {
		struct { void *handler; uint64_t flags; void *restorer; uint64_t mask; } dfl = {0};
		uint64_t none = 0;
		GR_RAW(SYS_rt_sigaction, gr_ctl->end_value, &dfl, 0, 8);
		GR_RAW(SYS_rt_sigprocmask, SIG_SETMASK, &none, 0, 8);
		GR_RAW(SYS_tgkill, gr_pid(), gr_tid(), gr_ctl->end_value);
	}
	for (;;)
		GR_RAW(SYS_exit_group, gr_ctl->end_kind == 1 ? gr_ctl->end_value : 0);
}

// ---------------------------------------------------------------- whose turn it is
// A thread that ended is gone from the kernel before anything runs behind its last tick: the kernel clears its
// ctid at a moment of its own choosing otherwise.
static void await_death(void)
{
	struct gr_thread *t = gr_replay.dying;
	if (!t)
		return;
	gr_replay.dying = NULL;
	gr_thread_await_gone(t->pub.tid, gr_thread_gone_word(t));
	// The kernel clears the word before the task is gone from its tables; the block's stack is not needed from then on.
	gr_thread_release(t);
}

static uint32_t owner(void)
{
	while (gr_replay.left == 0) {
		if (gr_replay.run == gr_image->runs)
			gr_panic(gr_self, GR_PANIC_BUG, "the order of the demo ends at tick %u, its streams do not",
				 gr_replay.tick, 0);
		gr_replay.left = run_at(gr_replay.run)->count;
		gr_replay.run += gr_replay.left == 0;
	}
	return run_at(gr_replay.run)->thread;
}

static void hand_over(struct gr_thread *self, uint32_t index)
{
	struct gr_thread *next = gr_thread_by_index(index);
	if (!next)
		gr_panic(self, GR_PANIC_DESYNC, "operation %u belongs to thread %u, which the program has not made",
			 gr_replay.tick, index + 1);
	gr_unpark(next);
}

static void take(void)
{
	gr_replay.tick++;
	if (--gr_replay.left == 0)
		gr_replay.run++;
	gr_slot->tick = gr_replay.tick;
}

enum want {
	TAKE,   // this thread's next tick
	LOOK,   // the same, but without taking it
	BEHIND, // its unfinished segment behind the last tick
};

// False: no operation of this thread was known when it began to wait, and now one is, which is not taken yet.
static bool await_turn(struct gr_thread *self, enum want want)
{
	bool blind = !self->left;
	bool back = gr_replay.lent == self->pub.index + 1; // then the turn is another's, who is on its way to this tick
	if (back)
		gr_replay.lent = 0;
	self->behind = want == BEHIND;
	for (;;) {
		await_death();
		if (gr_replay.tick == gr_image->ticks) {
			if (want != TAKE && gr_replay.final == self->pub.index)
				return true;
			if (!(gr_slot->flags & GR_SLOT_HOLD_END))
				finish();
			gr_replay.final = ~0u;
			gr_gate_stand(self, GR_S_ENDED);
			gr_replay.final = gr_slot->final_thread;
			if (gr_replay.final == self->pub.index || !gr_thread_by_index(gr_replay.final))
				continue;
			hand_over(self, gr_replay.final);
		} else if (want == LOOK && owner() == self->pub.index) {
			return true; // who wants to stand here does so at the operation itself
		} else if (gr_replay.tick == gr_slot->stop_tick && !back) {
			gr_gate_stand(self, GR_S_STANDING);
			continue;
		} else if (owner() == self->pub.index && want == TAKE) {
			if (blind && self->left)
				return false;
			take();
			if (gr_together_where)
				gr_together_run(self, false);
			return true;
		} else {
			hand_over(self, owner());
		}
		gr_park(self);
		back = false;
		if (want == BEHIND && gr_replay.lent == self->pub.index + 1) {
			self->behind = false;
			return true;
		}
	}
}

// INVARIANT(free-at-my-turn) has one exception: who holds the lock may have had no further operation, and stands behind
// its last one, in front of the instructions that give it back. The recorded thread has run those by now, or this one
// could not have had the lock; so each who stands there runs until it comes to the gate again.
static void lend(struct gr_thread *self)
{
	for (uint32_t i = 0; i < gr_thread_blocks(); i++) {
		struct gr_thread *t = gr_thread_block(i);
		if (t == self || !t->behind || t->pub.state == GR_T_EXITED)
			continue;
		gr_replay.lent = t->pub.index + 1;
		gr_unpark(t);
		while (gr_replay.lent)
			gr_park(self);
	}
}

// ---------------------------------------------------------------- operations
_Noreturn void gr_gate_desync(struct gr_thread *self, const struct gr_event *want, enum gr_op op, uint16_t nr,
			      uint64_t object, const char *text)
{
	struct gr_panic *p = gr_panic_open(self, GR_PANIC_DESYNC);
	if (p) {
		p->tick = gr_replay.tick - 1;
		p->want_op = want->kind;
		p->want_nr = want->nr;
		p->want_object = want->object;
		p->got_op = op;
		p->got_nr = nr;
		p->got_object = object;
		gr_format(p->text, sizeof p->text, "%s", text);
	}
	gr_panic_close();
}

static bool matches(const struct gr_event *ev, enum gr_op op, uint64_t object)
{
	return ev->kind == op && (!object || ev->object == object);
}

// ---------------------------------------------------------------- runs
static bool is_in_runs(enum gr_op op)
{
	switch (op) {
	case GR_OP_MUTEX_LOCK:
	case GR_OP_MUTEX_TRYLOCK:
	case GR_OP_MUTEX_UNLOCK:
	case GR_OP_SPIN_LOCK:
	case GR_OP_SPIN_UNLOCK:
	case GR_OP_SEM_WAIT:
	case GR_OP_SEM_POST:
	case GR_OP_RWLOCK_READ:
	case GR_OP_RWLOCK_WRITE:
	case GR_OP_RWLOCK_UNLOCK:
	case GR_OP_COND_SIGNAL:
	case GR_OP_LIBRARY_LOCK:
	case GR_OP_ONCE:
		return true;
	default:
		return false;
	}
}

// One more operation of the run under way. INVARIANT(run-is-checked): which ones they were is compared at its end; up to
// there only what can be in no run is noticed.
static void next_of_run(struct gr_thread *self, enum gr_op op, uint16_t nr, uint64_t object, struct gr_event *ret)
{
	struct gr_event run = {.kind = GR_OP_RUN, .object = self->run_left};
	if (!is_in_runs(op))
		gr_gate_desync(self, &run, op, nr, object, "another operation");
	uint32_t held = op == GR_OP_LIBRARY_LOCK ? *(volatile uint32_t *)object : 0;
	self->run_hash = gr_run_hash(self->run_hash, op, object + held);
	self->counted = true;
	if (--self->run_left == 0 && gr_run_fold(self->run_hash) != self->run_check)
		gr_gate_desync(self, &run, op, nr, object, "other operations in a run that ends here");
	*ret = (struct gr_event){.kind = op, .object = object, .result = held, .stamp = self->stamp};
}

static void next_event(struct gr_thread *self, enum gr_op op, uint16_t nr, uint64_t object, struct gr_event *ret)
{
	if (!self->run_left) {
		size_t n = gr_event_decode(self->pos, self->end - self->pos, ret, &self->stamp);
		if (!n || !self->left)
			gr_panic(self, GR_PANIC_BUG, "the stream of thread %u ends before its operation %u", self->pub.index + 1,
				 self->pub.ops);
		self->pos += n;
		self->word = gr_word(self->stamp, self->pub.index);
		if (ret->kind == GR_OP_RUN) {
			self->run_left = ret->object;
			self->run_check = ret->check;
			self->run_hash = 0;
		}
	}
	self->left--;
	self->pub.tick = gr_replay.tick - 1;
	self->pub.ops++;
	if (self->run_left)
		next_of_run(self, op, nr, object, ret);
}

bool gr_gate_ahead(struct gr_thread *self, enum gr_op op, uint64_t object)
{
	uint64_t stamp = self->stamp;
	const uint8_t *pos = self->pos;
	struct gr_event ev;
	if (self->run_left)
		return false;
	for (uint64_t left = self->left; left; left--) {
		size_t n = gr_event_decode(pos, self->end - pos, &ev, &stamp);
		if (!n || matches(&ev, op, object))
			return n;
		if (!gr_event_may_miss(&ev))
			return false;
		pos += n;
	}
	return false;
}

void gr_gate_next(struct gr_thread *self, enum gr_op op, uint16_t nr, uint64_t object, struct gr_event *ret)
{
	self->quick = 0;
	bool passed = false; // then in front of a later operation than it came to in the recording, it may have stood for a digest
	do {
		do {
			if (op != GR_OP_SIGNAL && op != GR_OP_CANCELED && op != GR_OP_FAULT)
				gr_gate_on_signal(self);
		} while (!await_turn(self, TAKE));
		next_event(self, op, nr, object, ret);
		self->waited |= ret->kind == GR_OP_BLOCK;
		passed |= gr_event_may_miss(ret);
	} while ((gr_event_may_miss(ret) || (passed && ret->kind == GR_OP_TURN)) && !matches(ret, op, object));
	if (ret->kind != op || ret->nr != nr)
		gr_gate_desync(self, ret, op, nr, object, "another operation");
	if (object && ret->object != object)
		gr_gate_desync(self, ret, op, nr, object, "another object");
	if (gr_gate_on_taken)
		gr_gate_on_taken(op, nr);
}

// INVARIANT(arrival-is-known): where no more of this thread was recorded it stays here, until there is more.
void gr_gate_step(struct gr_thread *self, enum gr_step step)
{
	struct gr_event ev;
	if (gr_mode == GR_MODE_RECORD) {
		(gr_turn_on ? gr_turn_step : gr_halt_step)(self, step);
		return;
	}
	gr_gate_next(self, GR_OP_TURN, 0, 0, &ev);
	if (!self->left)
		await_turn(self, TAKE);
}

bool gr_gate_peek(struct gr_thread *self, struct gr_event *ret)
{
	uint64_t stamp = self->stamp;
	if (self->run_left) {
		*ret = (struct gr_event){.kind = GR_OP_RUN, .object = self->run_left};
		return self->left;
	}
	return self->left && gr_event_decode(self->pos, self->end - self->pos, ret, &stamp);
}

#define TURNS_MAX 100000 // in one segment

void gr_gate_turn(struct gr_thread *self)
{
	if (self->turn_ops != self->pub.ops)
		self->turns = 0;
	self->turn_ops = self->pub.ops;
	if (self->turns++ == TURNS_MAX)
		gr_panic(self, GR_PANIC_DESYNC, "it waits for something that no other thread does before tick %u; the order of a program's own atomics is not in"
			 " a parallel recording",
			 gr_replay.tick, 0);
	await_turn(self, self->left ? LOOK : BEHIND);
	if (self->left && self->turns > 1)
		lend(self);
}

void gr_gate_behind(struct gr_thread *self)
{
	if (!self->left)
		await_turn(self, BEHIND);
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

// INVARIANT(quick-is-unseen): of a process that only runs. Where somebody looks (debug registers, protected pages, a debugger, single
// steps), each operation has its frame, so that a store of the engine's is told from one of the program's. Only there does a controller
// give the run that is under way another end.
void gr_gate_quick(struct gr_thread *self)
{
	bool looked = gr_gate_on_taken || gr_gate_on_out || gr_gate_on_segment || gr_copy_watched || gr_copy_protected || gr_copy_lift ||
		      gr_slot->points || gr_slot->flags & (GR_SLOT_DEBUGGED | GR_SLOT_TRACE) || gr_replay.trace_tick != ~0ULL ||
		      gr_ctl->knob[GR_KNOB_digest];
	self->quick = 0;
	gr_quick_known = gr_ctl->knob[GR_KNOB_order] != 0;
	if (!self->run_left || !gr_replay.left || looked || owner() != self->pub.index)
		return;
	uint64_t most = least(self->run_left - 1, least(gr_replay.left - 1, gr_slot->stop_tick - gr_replay.tick));
	self->quick = (uint32_t)least(most, self->left ? self->left - 1 : 0);
}

void gr_gate_out(struct gr_thread *self, struct gr_regs *frame)
{
	gr_gate_behind(self);
	uint64_t tick = gr_replay.final == self->pub.index ? gr_replay.tick : self->pub.tick;
	frame->eflags &= ~0x100ULL; // TF
	if (gr_replay.trace_tick == tick)
		frame->eflags |= 0x100;
	if (gr_gate_on_out)
		gr_gate_on_out();
	if (gr_gate_on_segment)
		gr_gate_on_segment(tick);
}

void gr_gate_leave(struct gr_thread *self)
{
	gr_replay.dying = self;
	self->pub.state = GR_T_EXITED;
	if (gr_replay.tick == gr_image->ticks || gr_replay.tick == gr_slot->stop_tick) {
		// INVARIANT(a-turn-waits): somebody has to stand there; whoever is left will do, he meets the same condition. He who
		// handed his turn to us may not be PARKED yet: the turn stays his until he is.
		for (uint32_t i = 0; i < gr_thread_blocks(); i++) {
			struct gr_thread *t = gr_thread_block(i);
			if (gr_thread_lives(t)) {
				gr_unpark(t);
				return;
			}
		}
		return;
	}
	hand_over(self, owner());
}
