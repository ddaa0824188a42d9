// The turn; see turn.h.
// Runs in: application threads while recording.
// May call: core, log, raw system calls.
// Owns: the lists of those who want the turn and of those who wait.
#include "turn.h"

#include <errno.h>
#include <linux/futex.h>
#include <signal.h>

#include "../core/page.h"
#include "../core/raw.h"
#include "choice.h"
#include "edge.h"
#include "log.h"
#include "together.h"

#define LONG 100000000      // nanoseconds of processor time until a thread that comes to fewer operations than that gives way
#define LOSSES 3            // times that a thread is woken in vain before it comes next
#define SLICE 100000000     // nanoseconds between two looks at who has the turn
#define GLANCE 20000000     // the same for the first of those who want it, as long as nothing is asked of who has it
#define DOZE 500000000      // the same for those who do not want it
#define PATIENCE 1000000000 // nanoseconds of processor time without an operation until a thread has to give way anywhere
#define LOOKS 100           // the same as a number of looks, for one that does not even compute

bool gr_turn_on, gr_turn_steps;
struct gr_turn gr_turn;

// ---------------------------------------------------------------- the lock
// Handlers of the engine only hold a signal, so nobody comes here who is in here already.
static void enter(const struct gr_thread *self)
{
	uint32_t me = self->block + 1, nobody = 0;
	for (; !__atomic_compare_exchange_n(&gr_turn.lock, &nobody, me, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED); nobody = 0)
		GR_RAW(SYS_sched_yield);
}

static void leave(void)
{
	__atomic_store_n(&gr_turn.lock, 0, __ATOMIC_RELEASE);
}

static void post(struct gr_thread *t, uint32_t value)
{
	__atomic_store_n(&t->seat.post, value, __ATOMIC_RELEASE);
	GR_RAW(SYS_futex, &t->seat.post, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
}

static bool has_turn(const struct gr_thread *self)
{
	return __atomic_load_n(&gr_turn.owner, __ATOMIC_ACQUIRE) == self->block + 1;
}

// ---------------------------------------------------------------- lists
static void append(struct gr_seats *list, struct gr_thread *t, enum gr_seat_state state)
{
	t->seat.next = NULL;
	t->seat.prev = list->last;
	*(list->last ? &list->last->seat.next : &list->first) = t;
	list->last = t;
	gr_turn.wanting += state == GR_SEAT_WANTS;
	__atomic_store_n(&t->seat.state, state, __ATOMIC_RELEASE);
}

static void take_out(struct gr_thread *t)
{
	if (gr_turn.urgent == t)
		gr_turn.urgent = NULL;
	struct gr_seats *list = t->seat.state == GR_SEAT_WANTS ? &gr_turn.wants : &gr_turn.waits;
	if (t->seat.state == GR_SEAT_RUNS)
		return;
	*(t->seat.prev ? &t->seat.prev->seat.next : &list->first) = t->seat.next;
	*(t->seat.next ? &t->seat.next->seat.prev : &list->last) = t->seat.prev;
	gr_turn.wanting -= t->seat.state == GR_SEAT_WANTS;
	__atomic_store_n(&t->seat.state, GR_SEAT_RUNS, __ATOMIC_RELEASE);
}

// ---------------------------------------------------------------- giving it away
// Whoever has the turn comes here at his next operation, also where he only counts them.
static void call_back(void)
{
	if (gr_turn.owner)
		__atomic_store_n(&gr_thread_block(gr_turn.owner - 1)->turn, 1, __ATOMIC_RELAXED);
}

// INVARIANT(one-owner): only who is inside the lock names another owner.
static void hand_to(struct gr_thread *t)
{
	take_out(t);
	t->seat.streak = 0;
	t->seat.asked = GR_ASK_NOTHING;
	gr_turn.steps++;
	gr_choice_handed(t);
	__atomic_store_n(&gr_turn.owner, t->block + 1, __ATOMIC_RELEASE);
	post(t, 2);
}

static void hand_on(void)
{
	struct gr_thread *t = gr_choice_make(NULL);
	if (gr_turn.owner)
		gr_thread_block(gr_turn.owner - 1)->seat.gave = true;
	call_back();
	__atomic_store_n(&gr_turn.owner, 0, __ATOMIC_RELEASE);
	if (t)
		hand_to(t);
}

static void want(struct gr_thread *t)
{
	if (t->seat.state == GR_SEAT_WAITS)
		take_out(t);
	if (t->seat.state == GR_SEAT_RUNS) {
		__atomic_store_n(&t->seat.post, 0, __ATOMIC_RELEASE);
		append(&gr_turn.wants, t, GR_SEAT_WANTS);
	}
	if (!gr_turn.owner)
		hand_on();
}

// One that waited can go on. INVARIANT(nobody-starves): one that found again and again that others had been faster comes
// next, whatever the order says, while what it waits for is still free. Who sleeps without a look now and then gets up, to look at who has the turn from here on.
static void wake(struct gr_thread *t, enum gr_woken why)
{
	t->seat.why = why;
	want(t);
	if (t->seat.state == GR_SEAT_WANTS && t->seat.lost >= LOSSES && !gr_turn.urgent) {
		gr_turn.urgent = t;
		call_back();
	}
	if (t->seat.state == GR_SEAT_WANTS && t->seat.sleeps)
		post(t, 1);
}

// ---------------------------------------------------------------- who holds others up
// One that computes is asked to give way, first where it spins, later anywhere. One that is not even in its own code has nowhere
// to be left at: who waits for the library inside of an operation in a way that the engine does not see.
static void press(struct gr_seat *seat, struct gr_thread *t)
{
	uint64_t patience = t->seat.again ? PATIENCE / 10 : PATIENCE;
	bool late = ++seat->looks >= LOOKS || gr_thread_time(t) - seat->cpu >= patience;
	if (seat->looks >= LOOKS && __atomic_load_n(&t->pub.state, __ATOMIC_RELAXED) != GR_T_RUNNING) {
		gr_ctl->overtaken++;
		hand_on();
		return;
	}
	if (late || t->seat.asked == GR_ASK_NOTHING)
		__atomic_store_n(&t->seat.asked, late ? GR_ASK_PLACE : GR_ASK_PROOF, __ATOMIC_RELAXED);
	call_back();
	t->seat.poked = true;
	gr_thread_poke(t);
}

enum gr_ask gr_turn_asked(const struct gr_thread *self)
{
	return gr_turn_on && has_turn(self) ? __atomic_load_n(&self->seat.asked, __ATOMIC_RELAXED) : GR_ASK_NOTHING;
}

// Its operations are far apart.
static void hurry(struct gr_seat *seat, const struct gr_thread *t)
{
	uint64_t time = gr_thread_time(t);
	if (seat->hands != gr_turn.hands) {
		seat->hands = gr_turn.hands;
		seat->since = time;
	} else if (time - seat->since >= LONG) {
		gr_turn.hurry = true;
		call_back();
	}
}

// Another look at whoever has the gr_turn. One in a system call comes back through gr_turn_back and loses nothing.
static void look(struct gr_thread *self)
{
	struct gr_seat *seat = &self->seat;
	enter(self);
	struct gr_thread *t = gr_turn.owner ? gr_thread_block(gr_turn.owner - 1) : NULL;
	uint64_t done = gr_turn.steps + (t ? __atomic_load_n(&t->pub.ops, __ATOMIC_RELAXED) : 0);
	if (t && t != self)
		hurry(seat, t);
	if (!t) {
		hand_on();
	} else if (seat->seen != done) {
		seat->seen = done;
		seat->looks = 0;
		seat->cpu = gr_thread_time(t);
	} else if (t != self && t->seat.calls) {
		hand_on();
	} else if (t != self) {
		press(seat, t);
	}
	leave();
	if (gr_together_where && seat->looks)
		gr_together_apart(); // nobody hands anything over
}

// A thread that has ended is gone from the kernel before anybody runs behind its last event: what is cleared then, and
// whether it can be joined, would depend on the kernel's speed.
static void await_death(void)
{
	uint32_t tid = gr_turn.dying, *ctid = gr_turn.dying_ctid;
	if (!tid)
		return;
	gr_turn.dying = 0;
	gr_thread_await_gone(tid, ctid);
}

// When the next look is due. The wait lasts until then however often the engine's timer comes by meanwhile.
static struct timespec next_look(const struct gr_thread *self)
{
	struct timespec now = {0, 0};
	bool glances = __atomic_load_n(&gr_turn.wants.first, __ATOMIC_RELAXED) == self && self->seat.looks < 2;
	long wait = glances ? GLANCE : SLICE;
	GR_RAW(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
	now.tv_sec += (now.tv_nsec + wait) / 1000000000;
	now.tv_nsec = (now.tv_nsec + wait) % 1000000000;
	return now;
}

// INVARIANT(no-wait-while-held): what ends a wait is looked at together with beginning to wait (gr_wait6).
static enum gr_woken listen_once(struct gr_thread *self, unsigned kind, struct gr_limit limit, uint32_t seen)
{
	static const struct timespec doze = {0, DOZE};
	static const uint32_t none;
	const uint32_t *held = kind & GR_WAIT_SIGNALS ? &self->held : &none;
	const uint32_t *cancel = kind & GR_WAIT_CANCELS ? &self->cancel : &none;
	uint32_t *word = &self->seat.post;
	int timed = FUTEX_WAIT_BITSET_PRIVATE | (limit.clock == CLOCK_REALTIME ? FUTEX_CLOCK_REALTIME : 0);
	if (!self->seat.sleeps) {
		GR_RAW(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, &doze, 0, 0);
		return GR_WOKEN;
	}
	long ret = gr_wait6(SYS_futex, (long)word, timed, seen, (long)limit.until, 0, FUTEX_BITSET_MATCH_ANY, held, cancel);
	if (ret == -ETIMEDOUT)
		return GR_WOKEN_LATE;
	bool ended = __atomic_load_n(held, __ATOMIC_RELAXED) || __atomic_load_n(cancel, __ATOMIC_SEQ_CST) == 1;
	return ended ? GR_WOKEN_ENDED : GR_WOKEN;
}

static void await(struct gr_thread *self, unsigned kind, struct gr_limit limit)
{
	struct timespec due = {0, 0};
	self->seat.seen = ~0ULL;
	self->seat.looks = 0;
	gr_edge_rest(self);
	while (__atomic_load_n(&gr_turn_on, __ATOMIC_RELAXED)) {
		uint32_t *word = &self->seat.post, seen = __atomic_load_n(word, __ATOMIC_ACQUIRE);
		enum gr_woken why = GR_WOKEN;
		if (has_turn(self))
			break;
		if (__atomic_load_n(&self->seat.state, __ATOMIC_ACQUIRE) == GR_SEAT_WAITS) {
			why = listen_once(self, kind, limit, seen);
		} else {
			if (!due.tv_sec)
				due = next_look(self);
			if (GR_RAW(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, seen, &due, 0, FUTEX_BITSET_MATCH_ANY) == -ETIMEDOUT) {
				look(self);
				due = next_look(self);
			}
		}
		if (why != GR_WOKEN) {
			enter(self);
			if (self->seat.state == GR_SEAT_WAITS)
				wake(self, why);
			leave();
		}
	}
	if (__atomic_load_n(&gr_turn_on, __ATOMIC_RELAXED))
		await_death();
	gr_together_run(self, true);
}

static void await_turn(struct gr_thread *self)
{
	await(self, 0, (struct gr_limit){NULL, 0});
}

// ---------------------------------------------------------------- handing over
void gr_turn_in_vain(struct gr_thread *self)
{
	if (gr_turn_on && has_turn(self))
		gr_choice_in_vain();
}

// The thread that comes next in place of this one, which has the turn; NULL: it goes on itself.
static struct gr_thread *next(struct gr_thread *self, enum gr_step step)
{
	gr_turn.steps++;
	gr_ctl->steps++;
	self->seat.asked = GR_ASK_NOTHING;
	struct gr_thread *t = gr_choice_next(self, step);
	if (t != self)
		return t;
	self->turn = gr_choice_is_due(self); // it holds a lock
	return NULL;
}

// INVARIANT(arrival-is-known). Outside of the lock: the log may be full, and closes the turns then. Nobody but the owner takes
// somebody out of those who want the turn, unless he is overtaken meanwhile.
static void arrive(struct gr_thread *self, enum gr_step step)
{
	struct gr_event ev = {.kind = GR_OP_TURN};
	leave();
	if (step != GR_STEP_STOP)
		gr_log(self, &ev);
	enter(self);
}

void gr_turn_step(struct gr_thread *self, enum gr_step step)
{
	bool stays = self->seat.stays && has_turn(self);
	__atomic_store_n(&self->turn, 0, __ATOMIC_RELAXED);
	self->seat.stays = self->seat.gave = self->seat.again = false;
	self->seat.lost = 0;
	if (stays)
		return;
	struct gr_thread *t = NULL;
	enter(self);
	if (has_turn(self) && !(t = next(self, step))) {
		leave();
		if (gr_together_where)
			gr_together_run(self, false);
		return;
	}
	arrive(self, step);
	if (gr_turn_on) {
		bool mine = has_turn(self);
		want(self);
		if (mine)
			hand_to(t);
	}
	leave();
	await_turn(self);
}

// ---------------------------------------------------------------- system calls
void gr_turn_call(struct gr_thread *self, bool waits)
{
	__atomic_store_n(&self->seat.calls, 1, __ATOMIC_RELAXED);
	if (!waits)
		return;
	enter(self);
	bool poked = self->seat.poked;
	self->seat.poked = false;
	if (gr_turn.owner == self->block + 1)
		hand_on();
	leave();
	if (poked)
		gr_tid(); // the signal comes at the end of a call, at the latest: not in the one that waits, which it would end
}

void gr_turn_back(struct gr_thread *self)
{
	__atomic_store_n(&self->seat.calls, 0, __ATOMIC_RELAXED);
	enter(self);
	bool away = gr_turn.owner != self->block + 1;
	if (away)
		want(self);
	leave();
	if (away)
		await_turn(self);
}

// Who is awake and has not the turn is in a system call, or was overtaken in the middle of an operation. Of a thread that the library
// has not made nobody knows where its kernel id stands.
static bool stands(const struct gr_thread *t)
{
	if (!gr_thread_of_library(t))
		return false;
	if (t->seat.state == GR_SEAT_RUNS && !__atomic_load_n(&t->seat.calls, __ATOMIC_RELAXED))
		return false;
	return __atomic_load_n(&t->pub.tid, __ATOMIC_ACQUIRE) && !__atomic_load_n(&t->seat.stores, __ATOMIC_ACQUIRE);
}

bool gr_turn_all_stand(const struct gr_thread *self)
{
	const struct gr_thread *t;
	enter(self);
	bool all = gr_turn_on && gr_turn.owner == self->block + 1;
	for (uint32_t i = 0; all && i < gr_thread_blocks(); i++)
		if ((t = gr_thread_block(i)) != self && gr_thread_lives(t))
			all = stands(t);
	leave();
	return all;
}

// ---------------------------------------------------------------- births and deaths
void gr_turn_init(struct gr_thread *self)
{
	if (gr_ctl->knob[GR_KNOB_order] == GR_ORDER_PARALLEL)
		return;
	gr_choice_init();
	gr_choice_born(self);
	gr_turn.owner = self->block + 1;
	gr_turn_on = gr_turn_steps = true;
}

void gr_turn_born(struct gr_thread *child)
{
	enter(gr_self);
	gr_choice_born(child);
	want(child);
	leave();
}

void gr_turn_begin(struct gr_thread *self)
{
	await_turn(self);
}

void gr_turn_leave(struct gr_thread *self)
{
	enter(self);
	gr_turn.dying = self->pub.tid;
	gr_turn.dying_ctid = gr_thread_gone_word(self);
	for (struct gr_thread *t = gr_turn.waits.first, *after; t; t = after) {
		after = t->seat.next;
		if (t->seat.kind & GR_WAIT_RETRY || t->seat.object == (uint64_t)self->clears)
			wake(t, GR_WOKEN);
	}
	if (gr_turn.owner == self->block + 1)
		hand_on();
	leave();
}

void gr_turn_close(void)
{
	if (!gr_turn_on)
		return;
	enter(gr_self);
	gr_turn_steps = false;
	__atomic_store_n(&gr_turn_on, false, __ATOMIC_SEQ_CST);
	for (struct gr_thread *t = gr_turn.wants.first; t; t = t->seat.next)
		post(t, 2);
	for (struct gr_thread *t = gr_turn.waits.first; t; t = t->seat.next)
		post(t, 2);
	leave();
	gr_together_never();
}

// ---------------------------------------------------------------- waiting for another thread
enum gr_woken gr_turn_wait(struct gr_thread *self, uint64_t object, unsigned kind, struct gr_limit limit, uint32_t mask)
{
	struct gr_seat *seat = &self->seat;
	enter(self);
	seat->object = object;
	seat->kind = kind;
	seat->mask = mask;
	seat->sleeps = limit.until || kind & (GR_WAIT_SIGNALS | GR_WAIT_CANCELS);
	seat->lost += seat->why == GR_WOKEN;
	seat->why = GR_WOKEN_CLOSED; // unless somebody says something else first
	__atomic_store_n(&seat->post, 0, __ATOMIC_RELEASE);
	append(&gr_turn.waits, self, GR_SEAT_WAITS);
	if (gr_turn.owner == self->block + 1)
		hand_on();
	leave();
	await(self, kind, limit);
	return seat->why;
}

uint32_t gr_turn_wake(struct gr_thread *self, uint64_t object, uint32_t count, uint32_t mask)
{
	uint32_t woken = 0;
	enter(self);
	// Who waits in the lists of turns that are none any more has gone to the kernel.
	struct gr_thread *after, *first = gr_turn_on ? gr_turn.waits.first : NULL;
	for (struct gr_thread *t = first; t && woken < count; t = after) {
		after = t->seat.next;
		if (t->seat.object != object || !(t->seat.mask & mask))
			continue;
		wake(t, GR_WOKEN);
		woken++;
	}
	leave();
	return woken;
}

uint32_t gr_turn_move(struct gr_thread *self, uint64_t object, uint32_t count, uint64_t to)
{
	uint32_t moved = 0;
	enter(self);
	for (struct gr_thread *t = gr_turn_on ? gr_turn.waits.first : NULL; t && moved < count; t = t->seat.next)
		if (t->seat.object == object) {
			t->seat.object = to;
			moved++;
		}
	leave();
	return moved;
}

void gr_turn_break(struct gr_thread *self, struct gr_thread *t)
{
	enter(self);
	if (t->seat.state == GR_SEAT_WAITS && t->seat.kind & GR_WAIT_CANCELS)
		wake(t, GR_WOKEN_ENDED);
	leave();
}
