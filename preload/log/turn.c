// The turn; see turn.h.
// Runs in: application threads while recording.
// May call: core, raw system calls.
// Owns: the lists of those who want the turn and of those who wait; the generator that draws.
#include "turn.h"

#include <errno.h>
#include <linux/futex.h>
#include <signal.h>

#include "../core/page.h"
#include "../core/raw.h"

// Operations that a thread keeps the turn for while others want it (serial). A prime: a loop of as many operations as
// divide it would always be left at the same place, perhaps always with the lock in its hands.
#define KEEP 61
#define LOSSES 3            // times that a thread is woken in vain before it comes next
#define STARVES 10000       // the same, before its priority drops (pct)
#define SLICE 100000000     // nanoseconds between two looks at who has the turn
#define GLANCE 20000000     // the same for the first of those who want it, as long as nothing is asked of who has it
#define DOZE 500000000      // the same for those who do not want it
#define PATIENCE 1000000000 // nanoseconds of processor time without an operation until a thread has to give way anywhere
#define LOOKS 100           // the same as a number of looks, for one that does not even compute
#define CHANGES 64          // the most change points

enum state { RUNS, WANTS, WAITS };

struct list { struct gr_thread *first, *last; };

bool gr_turn_on;

static struct {
	uint32_t lock;  // block plus 1 of the thread inside
	uint32_t owner; // block plus 1 of the thread that has the turn; 0: nobody
	struct list wants, waits;
	uint32_t wanting;
	uint64_t steps; // anything that whoever has the turn did
	uint64_t operations;
	uint64_t drawn; // state of the generator
	uint64_t change[CHANGES];
	int64_t lowest;
	struct gr_thread *urgent;
	uint32_t dying; // kernel id of a thread that is on its way out of the kernel
	uint32_t *dying_ctid;
} turn;

// ---------------------------------------------------------------- the lock
// Handlers of the engine only hold a signal, so nobody comes here who is in here already.
static void enter(const struct gr_thread *self)
{
	uint32_t me = self->block + 1, nobody = 0;
	for (; !__atomic_compare_exchange_n(&turn.lock, &nobody, me, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED); nobody = 0)
		GR_RAW(SYS_sched_yield);
}

static void leave(void)
{
	__atomic_store_n(&turn.lock, 0, __ATOMIC_RELEASE);
}

static void post(struct gr_thread *t, uint32_t value)
{
	__atomic_store_n(&t->seat.post, value, __ATOMIC_RELEASE);
	GR_RAW(SYS_futex, &t->seat.post, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
}

static bool has_turn(const struct gr_thread *self)
{
	return __atomic_load_n(&turn.owner, __ATOMIC_ACQUIRE) == self->block + 1;
}

// ---------------------------------------------------------------- lists
static void append(struct list *list, struct gr_thread *t, enum state state)
{
	t->seat.next = NULL;
	t->seat.prev = list->last;
	*(list->last ? &list->last->seat.next : &list->first) = t;
	list->last = t;
	turn.wanting += state == WANTS;
	__atomic_store_n(&t->seat.state, state, __ATOMIC_RELEASE);
}

static void take_out(struct gr_thread *t)
{
	if (turn.urgent == t)
		turn.urgent = NULL;
	struct list *list = t->seat.state == WANTS ? &turn.wants : &turn.waits;
	if (t->seat.state == RUNS)
		return;
	*(t->seat.prev ? &t->seat.prev->seat.next : &list->first) = t->seat.next;
	*(t->seat.next ? &t->seat.next->seat.prev : &list->last) = t->seat.prev;
	turn.wanting -= t->seat.state == WANTS;
	__atomic_store_n(&t->seat.state, RUNS, __ATOMIC_RELEASE);
}

// ---------------------------------------------------------------- who comes next
static uint64_t draw(void) // splitmix64
{
	uint64_t x = turn.drawn += 0x9e3779b97f4a7c15;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

// Among those who want the turn, and `self` unless NULL. Where there is no choice, nothing is drawn.
static struct gr_thread *choose(struct gr_thread *self)
{
	uint64_t n = turn.wanting + (self != NULL);
	struct gr_thread *t = turn.wants.first, *best = self;
	if (!t)
		return self;
	if (turn.urgent)
		return turn.urgent;
	switch ((enum gr_order)gr_ctl->knob[GR_KNOB_order]) {
	case GR_ORDER_RANDOM:
		for (n = n > 1 ? draw() % n : 0; t && n; n--)
			t = t->seat.next;
		return t ? t : self;
	case GR_ORDER_PCT:
		for (; t; t = t->seat.next)
			if (!best || t->seat.priority > best->seat.priority)
				best = t;
		return best;
	default:
		return t;
	}
}

// INVARIANT(one-owner): only who is inside the lock names another owner.
static void hand_to(struct gr_thread *t)
{
	take_out(t);
	t->seat.streak = 0;
	t->seat.asked = GR_ASK_NOTHING;
	turn.steps++;
	__atomic_store_n(&turn.owner, t->block + 1, __ATOMIC_RELEASE);
	post(t, 2);
}

static void hand_on(void)
{
	struct gr_thread *t = choose(NULL);
	if (turn.owner)
		gr_thread_block(turn.owner - 1)->seat.gave = true;
	__atomic_store_n(&turn.owner, 0, __ATOMIC_RELEASE);
	if (t)
		hand_to(t);
}

static void want(struct gr_thread *t)
{
	if (t->seat.state == WAITS)
		take_out(t);
	if (t->seat.state == RUNS) {
		__atomic_store_n(&t->seat.post, 0, __ATOMIC_RELEASE);
		append(&turn.wants, t, WANTS);
	}
	if (!turn.owner)
		hand_on();
}

// One that waited can go on. INVARIANT(nobody-starves): one that found again and again that others had been faster comes
// next, whatever the order says, while what it waits for is still free. Who sleeps without a look now and then gets up, to look at who has the turn from here on.
static void wake(struct gr_thread *t, enum gr_woken why)
{
	t->seat.why = why;
	want(t);
	if (t->seat.state == WANTS && t->seat.lost >= LOSSES && !turn.urgent)
		turn.urgent = t;
	if (t->seat.state == WANTS && t->seat.sleeps)
		post(t, 1);
}

// ---------------------------------------------------------------- who holds others up
static uint64_t cpu_time(const struct gr_thread *t)
{
	struct timespec used = {0, 0};
	GR_RAW(SYS_clock_gettime, (int)(~t->pub.tid << 3 | 6), &used); // CPUCLOCK_PERTHREAD | CPUCLOCK_SCHED
	return (uint64_t)used.tv_sec * 1000000000 + (uint64_t)used.tv_nsec;
}

// As if a timer of the engine's had run out for it, which is what handlers and debuggers know.
static void poke(struct gr_thread *t)
{
	struct { int32_t signal, error, code, pad; uint32_t timer, overrun; uint64_t value, rest[12]; } info = {
		.signal = SIGTRAP, .code = SI_TIMER, .value = (uint64_t)t,
	};
	_Static_assert(sizeof info == 128, "the kernel's siginfo_t");
	GR_RAW(SYS_rt_tgsigqueueinfo, gr_pid(), t->pub.tid, SIGTRAP, &info);
}

// One that computes is asked to give way, first where it spins, later anywhere. One that is not even in its own code has nowhere
// to be left at: who waits for the library inside of an operation in a way that the engine does not see.
static void press(struct gr_seat *seat, struct gr_thread *t)
{
	uint64_t patience = t->seat.again ? PATIENCE / 10 : PATIENCE;
	bool late = ++seat->looks >= LOOKS || cpu_time(t) - seat->cpu >= patience;
	if (seat->looks >= LOOKS && __atomic_load_n(&t->pub.state, __ATOMIC_RELAXED) != GR_T_RUNNING) {
		gr_ctl->overtaken++;
		hand_on();
		return;
	}
	if (late || t->seat.asked == GR_ASK_NOTHING)
		__atomic_store_n(&t->seat.asked, late ? GR_ASK_PLACE : GR_ASK_PROOF, __ATOMIC_RELAXED);
	poke(t);
}

enum gr_ask gr_turn_asked(const struct gr_thread *self)
{
	return gr_turn_on && has_turn(self) ? __atomic_load_n(&self->seat.asked, __ATOMIC_RELAXED) : GR_ASK_NOTHING;
}

// Another look at whoever has the turn. One in a system call comes back through gr_turn_back and loses nothing.
static void look(struct gr_thread *self)
{
	struct gr_seat *seat = &self->seat;
	enter(self);
	struct gr_thread *t = turn.owner ? gr_thread_block(turn.owner - 1) : NULL;
	if (!t) {
		hand_on();
	} else if (seat->seen != turn.steps) {
		seat->seen = turn.steps;
		seat->looks = 0;
		seat->cpu = cpu_time(t);
	} else if (t != self && t->seat.calls) {
		hand_on();
	} else if (t != self) {
		press(seat, t);
	}
	leave();
}

// A thread that has ended is gone from the kernel before anybody runs behind its last event: what is cleared then, and
// whether it can be joined, would depend on the kernel's speed.
static void await_death(void)
{
	uint32_t tid = turn.dying, *ctid = turn.dying_ctid;
	if (!tid)
		return;
	turn.dying = 0;
	long pid = gr_pid();
	while (GR_RAW(SYS_tgkill, pid, tid, 0) == 0 && !(ctid && __atomic_load_n(ctid, __ATOMIC_ACQUIRE) == 0))
		GR_RAW(SYS_sched_yield);
}

// When the next look is due. The wait lasts until then however often the engine's timer comes by meanwhile.
static struct timespec next_look(const struct gr_thread *self)
{
	struct timespec now = {0, 0};
	bool glances = __atomic_load_n(&turn.wants.first, __ATOMIC_RELAXED) == self && self->seat.looks < 2;
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
	while (__atomic_load_n(&gr_turn_on, __ATOMIC_RELAXED)) {
		uint32_t *word = &self->seat.post, seen = __atomic_load_n(word, __ATOMIC_ACQUIRE);
		enum gr_woken why = GR_WOKEN;
		if (has_turn(self))
			break;
		if (__atomic_load_n(&self->seat.state, __ATOMIC_ACQUIRE) == WAITS) {
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
			if (self->seat.state == WAITS)
				wake(self, why);
			leave();
		}
	}
	if (__atomic_load_n(&gr_turn_on, __ATOMIC_RELAXED))
		await_death();
}

static void await_turn(struct gr_thread *self)
{
	await(self, 0, (struct gr_limit){NULL, 0});
}

// ---------------------------------------------------------------- handing over
static void drop(struct gr_thread *self)
{
	self->seat.priority = --turn.lowest;
}

// PCT: at a change point the running thread gets a priority below all that were drawn, each one below the one before.
static void change_points(struct gr_thread *self)
{
	int64_t depth = gr_ctl->knob[GR_KNOB_pct_depth];
	for (int64_t i = 0; i < depth && i < CHANGES; i++)
		if (turn.change[i] == turn.operations)
			self->seat.priority = depth - i;
}

// The one who has the turn from here on, perhaps `self`.
static struct gr_thread *next(struct gr_thread *self, bool yields)
{
	enum gr_order order = gr_ctl->knob[GR_KNOB_order];
	self->seat.streak++;
	if (order == GR_ORDER_PCT) {
		change_points(self);
		if (turn.wanting && (yields || self->seat.streak > STARVES))
			drop(self);
	}
	if (!turn.wanting || (order == GR_ORDER_SERIAL && !yields && !turn.urgent && self->seat.streak < KEEP))
		return self;
	return choose(order == GR_ORDER_PCT || (order == GR_ORDER_RANDOM && !yields) ? self : NULL);
}

void gr_turn_step(struct gr_thread *self, bool yields)
{
	bool stays = self->seat.stays && has_turn(self);
	self->seat.stays = self->seat.gave = self->seat.again = false;
	self->seat.lost = 0;
	if (stays)
		return;
	enter(self);
	if (turn.owner == self->block + 1) {
		turn.steps++;
		turn.operations++;
		self->seat.asked = GR_ASK_NOTHING;
		struct gr_thread *t = next(self, yields);
		if (t == self) {
			leave();
			return;
		}
		want(self);
		hand_to(t);
	} else {
		want(self); // it was overtaken
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
	if (turn.owner == self->block + 1)
		hand_on();
	leave();
}

void gr_turn_back(struct gr_thread *self)
{
	__atomic_store_n(&self->seat.calls, 0, __ATOMIC_RELAXED);
	enter(self);
	bool away = turn.owner != self->block + 1;
	if (away)
		want(self);
	leave();
	if (away)
		await_turn(self);
}

// ---------------------------------------------------------------- births and deaths
static void draw_priority(struct gr_thread *t)
{
	if (gr_ctl->knob[GR_KNOB_order] == GR_ORDER_PCT)
		t->seat.priority = (int64_t)(draw() >> 1 | 1ULL << 32);
}

void gr_turn_init(struct gr_thread *self)
{
	if (gr_ctl->knob[GR_KNOB_order] == GR_ORDER_PARALLEL)
		return;
	turn.drawn = gr_ctl->knob[GR_KNOB_seed];
	for (unsigned i = 0; i < CHANGES; i++)
		turn.change[i] = 1 + draw() % gr_ctl->knob[GR_KNOB_pct_steps];
	draw_priority(self);
	turn.owner = self->block + 1;
	gr_turn_on = true;
}

void gr_turn_born(struct gr_thread *child)
{
	enter(gr_self);
	draw_priority(child);
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
	turn.dying = self->pub.tid;
	turn.dying_ctid = self->ctid;
	for (struct gr_thread *t = turn.waits.first, *after; t; t = after) {
		after = t->seat.next;
		if (t->seat.kind & GR_WAIT_RETRY || t->seat.object == (uint64_t)self->ctid)
			wake(t, GR_WOKEN);
	}
	if (turn.owner == self->block + 1)
		hand_on();
	leave();
}

void gr_turn_close(void)
{
	if (!gr_turn_on)
		return;
	enter(gr_self);
	__atomic_store_n(&gr_turn_on, false, __ATOMIC_SEQ_CST);
	for (struct gr_thread *t = turn.wants.first; t; t = t->seat.next)
		post(t, 2);
	for (struct gr_thread *t = turn.waits.first; t; t = t->seat.next)
		post(t, 2);
	leave();
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
	append(&turn.waits, self, WAITS);
	if (turn.owner == self->block + 1)
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
	struct gr_thread *after, *first = gr_turn_on ? turn.waits.first : NULL;
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

void gr_turn_break(struct gr_thread *self, struct gr_thread *t)
{
	enter(self);
	if (t->seat.state == WAITS && t->seat.kind & GR_WAIT_CANCELS)
		wake(t, GR_WOKEN_ENDED);
	leave();
}
