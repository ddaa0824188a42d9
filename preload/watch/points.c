// Points; see points.h. perf_event_open(PERF_TYPE_BREAKPOINT) with sigtrap: the debug registers without a debugger.
// Runs in: threads of a leaf; the SIGTRAP handler, in whatever the hit interrupted.
// May call: core, ctl, replay.
// Owns: SIGTRAP of a replay, the perf events, the hits of our slot.
#include "points.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <ucontext.h>

#include "../core/copy.h"
#include "../core/guard.h"
#include "../core/nolibc.h"
#include "../core/panic.h"
#include "../core/raw.h"
#include "../count/count.h"
#include "../ctl/slot.h"
#include "../digest/kept.h"
#include "../replay/gate.h"
#include "../signal/loop/loop.h"
#include "../tracer.h"
#include "condition.h"
#include "pages.h"

#define EFLAGS_TF 0x100
#define EFLAGS_RF 0x10000
#define FROM 8
#define PERF_FD_MIN 900 // out of the way of the program's numbers

void (*gr_points_foreign)(int sig, siginfo_t *info, void *context);

static struct {
	int fd[GR_WATCHES];        // plus 1
	uint64_t told[GR_WATCHES]; // hits that were handled
	uint32_t of;               // 1 + the index of the thread; 0: closed
} events[GR_LIVE_THREADS]; // by block
static uint32_t armed, armings;
static bool reads_count; // one of the points is hit by who only reads
// INVARIANT(one-trap-one-number): what is told between two instructions of the program, be it of several points, is one hit.
static uint64_t traps, current; // the newest, and the one that is being handled; 0: none is

struct seen {
	uint64_t value;    // as it was after the newest hit
	uint64_t tick, nth; // hits in this tick
	uint64_t count;    // hits since from_tick
	struct { uint64_t pc, times; } from[FROM]; // data: who touched it in this tick, whether that was a change or not
	uint64_t from_tick;
	uint32_t froms;    // more than FROM: too many to be told apart
};
static struct seen seen[GR_WATCHES];

static void look_at(void *dst, uint64_t addr, uint64_t len)
{
	if (reads_count || !gr_copy_guarded) // INVARIANT(a-look-is-no-hit), for 300 ns
		gr_peek(dst, addr, len);
	else
		gr_copy(dst, (const void *)addr, len);
}

static uint64_t value_at(const struct gr_point *point)
{
	uint64_t value = 0;
	if (point->kind != GR_POINT_EXEC)
		look_at(&value, point->addr, point->len < 8 ? point->len : 8);
	return value;
}

// ---------------------------------------------------------------- hits that are taken, and taken back
static void nap_until_taken(uint32_t taken)
{
	gr_slot_announce(GR_S_RUNNING);
	GR_RAW(SYS_futex, &gr_slot->hits_taken, FUTEX_WAIT, taken, 0, 0, 0);
}

static uint32_t hits_taken(void)
{
	return __atomic_load_n(&gr_slot->hits_taken, __ATOMIC_ACQUIRE);
}

// The search for a signal's place in a loop (signal/loop.c) may go too far and come back: what was hit on the way never was.
static void rewind(bool back)
{
	static struct seen kept_seen[GR_WATCHES];
	static struct gr_hit kept_ring[GR_HITS];
	static uint64_t kept_hits, kept_met;
	uint32_t taken;
	if (!armed)
		return;
	if (!back) {
		memcpy(kept_seen, seen, sizeof seen);
		memcpy(kept_ring, gr_slot->hit, sizeof kept_ring);
		kept_hits = gr_slot->hits;
		kept_met = gr_slot->met;
		return;
	}
	memcpy(seen, kept_seen, sizeof seen);
	memcpy(gr_slot->hit, kept_ring, sizeof kept_ring);
	gr_slot->met = (uint32_t)kept_met;
	__atomic_store_n(&gr_slot->hits, kept_hits, __ATOMIC_RELEASE);
	// INVARIANT(taken-back): hits that the controller has read already are given back by it before there are new ones.
	while (gr_slot->flags & GR_SLOT_KEEP_HITS && (int32_t)((taken = hits_taken()) - (uint32_t)kept_hits) > 0)
		nap_until_taken(taken);
}

// ---------------------------------------------------------------- arming
static bool is_wide(const struct gr_point *point)
{
	return point->len > sizeof(uint64_t);
}

// By copies of the program's code, without a debug register.
static bool is_counted(const struct gr_point *point)
{
	return point->kind == GR_POINT_EXEC && gr_count_wanted();
}

static void open_for(const struct gr_thread *t)
{
	static const uint32_t types[] = {
		[GR_POINT_WRITE] = HW_BREAKPOINT_W,
		[GR_POINT_ACCESS] = HW_BREAKPOINT_RW,
		[GR_POINT_EXEC] = HW_BREAKPOINT_X,
		[GR_POINT_CHANGE] = HW_BREAKPOINT_W,
	};
	events[t->block].of = t->pub.index + 1;
	for (uint32_t i = 0; i < armed; i++) {
		const struct gr_point *point = &gr_slot->point[i];
		if (is_wide(point) || is_counted(point))
			continue;
		struct perf_event_attr attr = {
			.type = PERF_TYPE_BREAKPOINT,
			.size = sizeof attr,
			.bp_type = types[point->kind & 3],
			.bp_addr = point->addr,
			.bp_len = point->kind == GR_POINT_EXEC ? sizeof(long) : point->len,
			.sample_period = 1,
			.exclude_kernel = 1,
			.exclude_hv = 1,
			.remove_on_exec = 1,
			.sigtrap = 1,
			.sig_data = i,
		};
		long fd = GR_RAW(SYS_perf_event_open, &attr, t->pub.tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
		if (GR_IS_ERR(fd))
			gr_panic(gr_self, GR_PANIC_REFUSED, "a hardware breakpoint at 0x%x (error %d)\ngdbrr doctor says how to allow it", point->addr, -fd);
		long high = GR_RAW(SYS_fcntl, fd, F_DUPFD_CLOEXEC, PERF_FD_MIN);
		if (!GR_IS_ERR(high)) {
			GR_RAW(SYS_close, fd);
			fd = high;
		}
		events[t->block].fd[i] = fd + 1;
		events[t->block].told[i] = 0;
	}
}

static void close_events(void)
{
	for (uint32_t block = 0; block < GR_LIVE_THREADS; block++) {
		for (uint32_t i = 0; events[block].of && i < GR_WATCHES; i++)
			if (events[block].fd[i])
				GR_RAW(SYS_close, events[block].fd[i] - 1);
		if (events[block].of)
			memset(&events[block], 0, sizeof events[block]);
	}
}

// Whoever looks at this process next may want the debug registers, or want to trace it himself. Closing a perf event takes the
// kernel tens of milliseconds, so a worker that ran to the end of its search, and will be dropped, keeps them.
static void disarm(enum gr_slot_state state)
{
	gr_count_stand(state == GR_S_TRAPPED);
	if (state == GR_S_TRAPPED)
		close_events();
	if (armed && gr_slot->flags & GR_SLOT_TRACED) // no signal to ourselves: the fence does not let every copy send one
		__asm__ volatile("int3" : : "a"(GR_TRACER_BYE) : "memory");
	armed = 0;
	gr_pages_disarm();
	gr_replay.trace_tick = ~0ULL;
}

void gr_points_arm(void)
{
	close_events();
	armings++;
	gr_count_arm();
	if (gr_slot->flags & GR_SLOT_TRACE) {
		gr_slot->trace_len = 0;
		if (!gr_count_wanted())
			gr_replay.trace_tick = gr_replay.tick;
	}
	armed = gr_slot->flags & GR_SLOT_DEBUGGED ? 0 : gr_slot->points < GR_WATCHES ? gr_slot->points : GR_WATCHES;
	if (!armed)
		return;
	gr_slot->hits = 0;
	memset(seen, 0, sizeof seen);
	reads_count = false;
	gr_copy_watched = false;
	for (uint32_t i = 0; i < armed; i++) {
		reads_count |= gr_slot->point[i].kind == GR_POINT_ACCESS;
		gr_copy_watched |= !is_counted(&gr_slot->point[i]); // the engine's own look at a watched address must not be a hit
	}
	for (uint32_t i = 0; i < armed; i++) {
		const struct gr_point *point = &gr_slot->point[i];
		if (is_wide(point))
			gr_pages_arm(i, point->addr, point->addr + point->len, point->kind == GR_POINT_ACCESS);
		else
			seen[i].value = value_at(point);
	}
	gr_pages_begin();
	if (gr_slot->flags & GR_SLOT_TRACED)
		return;
	for (uint32_t i = 0; i < gr_thread_blocks(); i++) {
		const struct gr_thread *t = gr_thread_block(i);
		if (gr_thread_lives(t))
			open_for(t);
	}
}

// INVARIANT(one-event-per-point): a thread that stood in front of its first operation when the points were armed has them.
void gr_points_born(struct gr_thread *self)
{
	if (!(gr_slot->flags & GR_SLOT_TRACED) && events[self->block].of != self->pub.index + 1)
		open_for(self);
}

// ---------------------------------------------------------------- hits
static uint64_t tick_of(const struct gr_thread *self)
{
	return gr_replay.final == self->pub.index ? gr_replay.tick : self->pub.tick;
}

// What it executes has its number from the segment's beginning on, wherever the run has begun.
static void enter_copies(struct gr_thread *self, ucontext_t *context)
{
	for (uint32_t i = 0; i < armed; i++)
		if (is_counted(&gr_slot->point[i])) {
			seen[i].tick = tick_of(self);
			seen[i].nth = gr_count_of(gr_slot->point[i].addr, 1);
		}
	gr_count_enter(context);
}

// Stops in the middle of a segment. Standing closes the points, so the instruction can go on when somebody lets it; RF
// would make a debugger's own breakpoint here go unnoticed.
static void stop(struct gr_thread *self, ucontext_t *context)
{
	if (self->pub.state == GR_T_RUNNING) {
		context->uc_mcontext.gregs[REG_EFL] &= ~(greg_t)(EFLAGS_RF | EFLAGS_TF);
		gr_show_context(self, context);
		self->pub.ret_pc = self->pub.shown.rip;
	}
	gr_slot->trap_thread = self->pub.index;
	gr_gate_stand(self, GR_S_TRAPPED);
	if (gr_count_wanted())
		enter_copies(self, context);
	else
		context->uc_mcontext.gregs[REG_EFL] |= gr_slot->flags & GR_SLOT_TRACE ? EFLAGS_TF : 0;
}

static void keep(const struct gr_hit *hit)
{
	uint32_t taken;
	while (gr_slot->flags & GR_SLOT_KEEP_HITS && (uint32_t)gr_slot->hits - (taken = hits_taken()) >= GR_HITS)
		nap_until_taken(taken);
	gr_slot->hit[gr_slot->hits % GR_HITS] = *hit;
	__atomic_store_n(&gr_slot->hits, gr_slot->hits + 1, __ATOMIC_RELEASE);
}

static bool condition_met(const struct gr_thread *self, const struct gr_point *point, const greg_t *r)
{
	uint32_t at = point->condition, len = point->condition_len;
	if (!len || at >= GR_CONDITION_ROOM || len > GR_CONDITION_ROOM - at)
		return true;
	struct gr_regs regs = r ? gr_regs_of(r) : self->pub.shown; // in an operation the program stands at its call
	return gr_condition_met(gr_slot->condition + at, len, &regs);
}

// How often this pc was behind one that touched the point in this tick; 0 where there were too many pcs.
static uint32_t times_from(struct seen *s, uint64_t pc, bool fresh)
{
	if (fresh)
		s->froms = 0;
	for (uint32_t i = 0; i < s->froms && i < FROM; i++)
		if (s->from[i].pc == pc)
			return (uint32_t)++s->from[i].times;
	if (s->froms >= FROM) {
		s->froms = FROM + 1;
		return 0;
	}
	s->from[s->froms].pc = pc;
	s->from[s->froms++].times = 1;
	return 1;
}

// INVARIANT(every-hit-has-its-number): hits are numbered, and stop, whether or not thread and condition let them into the
// log, because a moment is named by the number.
static void number(struct gr_thread *self, uint32_t i, const greg_t *regs, uint64_t old, uint64_t value, uint32_t times)
{
	const struct gr_point *point = &gr_slot->point[i];
	bool engine = self->pub.state != GR_T_RUNNING;
	uint64_t tick = tick_of(self);
	if (seen[i].tick != tick)
		seen[i].nth = 0;
	seen[i].tick = tick;
	seen[i].nth++;
	if ((point->thread && point->thread != self->pub.index + 1) || !condition_met(self, point, engine ? NULL : regs))
		return;
	struct gr_hit hit = {
		.tick = tick,
		.pc = regs ? (uint64_t)regs[REG_RIP] : 0,
		.nth = seen[i].nth,
		.old_value = old,
		.new_value = value,
		.thread = self->pub.index,
		.point = i,
		.engine = engine,
		.stores = times,
		.trap = current,
		.place_len = point->place_len < GR_PLACE ? point->place_len : GR_PLACE,
	};
	if (hit.place_len)
		look_at(hit.place, point->place, hit.place_len);
	keep(&hit);
}

// How often the place that REGS is behind has touched the point in this tick; 0 in an operation.
static uint32_t times_of(const struct gr_thread *self, uint32_t i, const greg_t *regs)
{
	uint64_t tick = tick_of(self);
	bool code = gr_slot->point[i].kind != GR_POINT_EXEC && regs && self->pub.state == GR_T_RUNNING;
	uint32_t times = code ? times_from(&seen[i], regs[REG_RIP], seen[i].from_tick != tick) : 0;
	seen[i].from_tick = tick;
	return times;
}

static bool numbered(struct gr_thread *self, uint32_t i, const greg_t *regs)
{
	const struct gr_point *point = &gr_slot->point[i];
	bool engine = self->pub.state != GR_T_RUNNING; // an operation does the kernel's or the library's part
	uint64_t value = value_at(point), old = seen[i].value;
	seen[i].value = value;
	if (i >= armed || tick_of(self) < point->from_tick)
		return false;
	gr_slot->met++;
	if (point->kind == GR_POINT_EXEC && engine)
		return false;
	uint32_t times = times_of(self, i, regs);
	if (point->kind == GR_POINT_CHANGE && old == value)
		return false;
	number(self, i, regs, old, value, times);
	return true;
}

// Whether it is to stop there.
static bool hits(struct gr_thread *self, uint32_t i, const greg_t *regs)
{
	const struct gr_point *point = &gr_slot->point[i];
	// Every execution has its number; only one with the wanted registers, and the memory that the condition wants, may stop.
	bool matches = !gr_slot->match_on || point->addr != gr_slot->match.rip ||
		       (gr_same_registers(&gr_slot->match, &gr_slot->meant, regs) && condition_met(self, point, regs));
	if (!numbered(self, i, regs))
		return false;
	seen[i].count += matches;
	return matches && point->stop_at && seen[i].count == point->stop_at;
}

static void hit(struct gr_thread *self, uint32_t i, ucontext_t *context)
{
	if (hits(self, i, context->uc_mcontext.gregs))
		stop(self, context);
}

void gr_points_touched(struct gr_thread *self, uint32_t i, uint64_t at, void *context)
{
	const greg_t *regs = context ? ((const ucontext_t *)context)->uc_mcontext.gregs : NULL;
	const struct gr_point *point = &gr_slot->point[i];
	if (i >= armed || tick_of(self) < point->from_tick)
		return;
	gr_slot->met++;
	number(self, i, regs, 0, at, times_of(self, i, regs));
	if (point->stop_at && ++seen[i].count == point->stop_at && context)
		stop(self, context);
}

// The debug registers are a debugger's, and see no mapping; the points are what it watches.
static void tell_debugger(uint64_t from, uint64_t len)
{
	for (uint32_t i = 0; i < gr_slot->points && i < GR_WATCHES; i++) {
		const struct gr_point *point = &gr_slot->point[i];
		if (from < point->addr + point->len && point->addr < from + len) {
			gr_debug_call(GR_DEBUG_MAPPED, i, NULL);
			return;
		}
	}
}

// What an operation maps, unmaps or drops is a store to it.
static void mapped(uint64_t from, uint64_t len)
{
	if (gr_slot->flags & GR_SLOT_DEBUGGED)
		tell_debugger(from, len);
	gr_kept_changed(from, from + len);
	gr_slot_stretch(from, from + len);
	for (uint32_t i = 0; i < armed; i++) {
		const struct gr_point *point = &gr_slot->point[i];
		if (point->kind == GR_POINT_EXEC || from + len <= point->addr || point->addr + point->len <= from)
			continue;
		if (!is_wide(point))
			seen[i].count += numbered(gr_self, i, NULL);
		else if (point->kind == GR_POINT_ACCESS)
			gr_points_touched(gr_self, i, from > point->addr ? from : point->addr, NULL);
	}
}

static void step(struct gr_thread *self, ucontext_t *context)
{
	greg_t *regs = context->uc_mcontext.gregs;
	uint64_t pc = regs[REG_RIP];
	if (self->pub.state != GR_T_RUNNING || gr_replay.trace_tick == ~0ULL) {
		regs[REG_EFL] &= ~(greg_t)EFLAGS_TF; // arrived at an operation
		return;
	}
	if (gr_in_engine(pc))
		return; // on the way in or out
	gr_ctl->trace[gr_slot->trace_len++ % GR_TRACE_MAX] = pc;
	if (gr_slot->trace_len >= gr_ctl->knob[GR_KNOB_trace_limit])
		stop(self, context);
}

// INVARIANT(one-signal-many-traps): SIGTRAP is pending once. A trap that comes while it is, be it another point's at the same
// instruction, a step's, a timer's or a breakpoint's, sends none of its own; but the events count all of them, and the place is
// the same. A signal that interrupts this handler leaves it what it has to tell.
static void merged(struct gr_thread *self, ucontext_t *context)
{
	uint32_t now = armings;
	if (self->pub.state == GR_T_RUNNING && gr_in_engine(context->uc_mcontext.gregs[REG_RIP]))
		return;
	for (uint32_t i = 0; now == armings && i < armed; i++) {
		int fd = events[self->block].fd[i] - 1;
		uint64_t count;
		if (fd < 0 || GR_RAW(SYS_read, fd, &count, sizeof count) != sizeof count || events[self->block].told[i] >= count)
			continue;
		events[self->block].told[i] = count;
		hit(self, i, context);
	}
}

// Who stopped at a hit may come back with other points: what else was hit there was none of them.
static void own(struct gr_thread *self, uint64_t data, ucontext_t *context)
{
	uint32_t now = armings;
	if (!(data & GR_TRACER_HITS)) {
		events[self->block].told[data % GR_WATCHES]++;
		hit(self, data % GR_WATCHES, context);
		return;
	}
	for (uint32_t i = 0; now == armings && i < GR_WATCHES; i++)
		if (data & 1u << i)
			hit(self, i, context);
}

static void foreign(int sig, const siginfo_t *info, void *context, int code, uint64_t data)
{
	siginfo_t other = *info;
	other.si_code = code;
	*(uint64_t *)((char *)&other + 24) = data;
	gr_points_foreign(sig, &other, context);
}

// INVARIANT(one-timer-deep): a timer that comes while this handler runs waits for its end; set again at once, it would come
// again and again until the handlers' stack is full.
static struct { uint32_t depth; bool timer; } inside[GR_LIVE_THREADS]; // by block

static void look(struct gr_thread *self, int sig, siginfo_t *info, ucontext_t *context)
{
	uint64_t data = *(const uint64_t *)((const char *)info + 24); // what follows si_addr; glibc before 2.36 has no name for it
	bool perf = info->si_code == GR_TRAP_PERF, seek = perf && data == GR_POINTS_FOREIGN;
	bool hits = perf && !seek, traced = hits && data & GR_TRACER_HITS, timer = info->si_code == SI_TIMER;
	volatile bool *waits = &inside[self->block].timer;
	if (timer && inside[self->block].depth) {
		*waits = true;
		return;
	}
	inside[self->block].depth++;
	uint64_t outer = current;
	current = ++traps;
	bool stepped = gr_pages_stepped(self, context);
	if (hits)
		own(self, data, context);
	if (!hits || traced || armed > 1) // who sent this is the only one, and asking it how often it was hit takes longer than the rest
		merged(self, context);
	if (!stepped && (info->si_code == TRAP_TRACE || (traced && data & GR_TRACER_AND_STEP))) {
		gr_loop_stepped();
		step(self, context);
	}
	current = outer;
	if (timer || (traced && data & GR_TRACER_AND_TIMER))
		*waits = true;
	for (;;) { // one may come until the very last moment
		while (inside[self->block].depth == 1 && *waits) {
			*waits = false;
			foreign(sig, info, context, SI_TIMER, (uint64_t)self);
		}
		__atomic_store_n(&inside[self->block].depth, inside[self->block].depth - 1, __ATOMIC_SEQ_CST);
		if (inside[self->block].depth || !*waits)
			break;
		__atomic_store_n(&inside[self->block].depth, 1, __ATOMIC_SEQ_CST);
	}
	if (seek || gr_loop_merged())
		foreign(sig, info, context, GR_TRAP_PERF, GR_POINTS_FOREIGN);
}

static void trap(int sig, siginfo_t *info, void *context)
{
	struct gr_thread *self = gr_self;
	uint64_t pc = ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
	enum gr_count_trap what = gr_count_trapped(self, info, context);
	if (what == GR_COUNT_STOP)
		stop(self, context);
	if (what == GR_COUNT_STOP || what == GR_COUNT_DONE)
		return;
	if (self && (info->si_code == GR_TRAP_PERF || info->si_code == SI_TIMER || info->si_code == TRAP_TRACE))
		look(self, sig, info, context);
	else if (gr_in_engine(pc) && ((ucontext_t *)context)->uc_mcontext.gregs[REG_RAX] == GR_TRACER_BYE)
		return; // there was no tracer any more
	else
		gr_points_foreign(sig, info, context);
	if (what == GR_COUNT_HIT && gr_count_on(context))
		stop(self, context);
}

void gr_points_init(void)
{
	const struct { void *handler; uint64_t flags; void *restorer; uint64_t mask; } action = {
		trap, SA_SIGINFO | SA_ONSTACK | SA_NODEFER | 0x04000000, gr_restorer, 0,
	};
	GR_RAW(SYS_rt_sigaction, SIGTRAP, &action, 0, 8);
	gr_gate_on_born = gr_points_born;
	gr_gate_on_stand = disarm;
	gr_copy_mapped = mapped;
	gr_gate_on_rewind = rewind;
	gr_count_passed = hits;
	gr_count_init();
}
