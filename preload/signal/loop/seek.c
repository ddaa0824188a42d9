// Finding a moment between two operations again. No counter of the processor says how far a thread is in a loop; what it
// has computed does. The recording keeps the whole state and one word of it that only rises or only falls, the pilot. The
// replay lets the program run, looks at the pilot ever more often the closer it comes, and takes each pass of the
// recorded instruction only for the last stretch. INVARIANT(equal-state-equal-future): the signal is delivered where
// registers and memory are those of the recording, and nowhere else: two such moments have the same future.
// Runs in: the engine's handlers, on their stack.
// May call: core, replay.
// Owns: the search under way, its breakpoint.
#include "loop.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>

#include "../../core/copy.h"
#include "../../core/guard.h"
#include "../../core/nolibc.h"
#include "../../core/ops.h"
#include "../../core/panic.h"
#include "../../core/raw.h"
#include "../../log/together.h"
#include "../../patch/patch.h"
#include "../../replay/gate.h"

#define STRETCH 5000      // ns before the moment from which every pass is looked at
#define PROBE 500         // passes after which it is known how many more there will be ...
#define FEW_PASSES 100000 // ... and more than these are left to the timer again
#define FIRST_TICK 200000
#define SHORT_TICK 15000
#define MEASURED_TICK (2 * SHORT_TICK) // most of it is the program's
#define ODD_LOOKS 3U      // looks in a row at a pilot that is not on its way, before that is believed
#define MANY_ATTEMPTS 12
#define FEW_BEYOND 20000  // passes that a pilot may be ahead of its way: from pass to pass it may go back, and rise or fall all the same
#define NOISY_ATTEMPTS 6
#define MANY_PASSES 3000000
#define MANY_LOOKS 2000   // passes with equal registers and other memory
#define SEEK_MARK 0x200   // sig_data of our breakpoint: watch/points.c hands it on
#define PERF_FD_MIN 900
#define EFLAGS_TF 0x100ULL
#define EFLAGS_RF 0x10000ULL

// The thread's own time: how fast it is does not depend on what else the machine does.
uint64_t gr_loop_time(void)
{
	struct timespec time;
	GR_RAW(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, &time);
	return (uint64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

// ---------------------------------------------------------------- replaying
static struct {
	struct gr_state state;
	bool on;
	long fd;          // plus 1; 0: no breakpoint yet
	uint64_t told;    // how many of its hits were looked at
	bool traps;       // it is an int3
	bool steps;       // what that hides is being stepped over
	uint8_t hidden;
	uint64_t value, time; // of the pilot at the newest tick
	uint64_t next;        // ns that the timer was set to
	uint64_t overhead;    // ns of the thread's time that a tick takes from the program, at least; ~0: not known yet
	uint64_t pace;        // the fastest that the pilot was lately seen to move, in steps of a millisecond
	uint64_t claim;       // the newest pace that was measured: true if the one before was like it
	uint64_t grain;       // the least that it moved between two looks
	uint32_t odd;         // looks in a row at which the pilot was not on its way
	bool muddled;         // since the newest tick the timer was set more than once
	bool in_front;        // the breakpoint was opened in front of the moment: a pass was seen there
	uint64_t probe;       // the pilot when the breakpoint was opened
	uint32_t again;       // passes since
	uint64_t stretch;     // STRETCH, longer at each attempt
	uint32_t attempts;
	bool seen_closer;     // the pilot was seen on its way
	uint32_t passes, looks, beyond;
	uint64_t began;       // the thread's time when the search began, but for what the breakpoint took of it
	uint64_t opened;      // its time when the breakpoint was opened
	bool wraps;           // the pilot was on its way, and began again
	uint64_t cpus[16]; // where the thread may run, while it is kept on one
	long cpus_len;
} seek;

static _Noreturn void lost(struct gr_thread *self, const struct gr_context *at, const char *text)
{
	struct gr_event ev = {0};
	gr_show_context(self, at);
	gr_gate_peek(self, &ev);
	gr_gate_desync(self, &ev, GR_OP_NONE, 0, at->greg[REG_RIP], text);
}

// The timer is the business of the processor that armed it. Were the thread on another one, it would run on while that
// one is kept from its work, which in a virtual machine takes milliseconds.
static void stay(void)
{
	uint64_t one[16] = {0};
	uint32_t cpu = 0;
	if (seek.cpus_len > 0)
		return;
	gr_together_apart();
	seek.cpus_len = GR_RAW(SYS_sched_getaffinity, 0, sizeof seek.cpus, seek.cpus);
	GR_RAW(SYS_getcpu, &cpu, 0, 0);
	if (seek.cpus_len <= 0 || cpu >= 8 * sizeof one)
		return;
	one[cpu / 64] = 1ULL << cpu % 64;
	GR_RAW(SYS_sched_setaffinity, 0, seek.cpus_len, one);
}

static void stay_no_longer(void)
{
	if (seek.cpus_len > 0)
		GR_RAW(SYS_sched_setaffinity, 0, seek.cpus_len, seek.cpus);
	seek.cpus_len = 0;
}

// Where perf events are refused, an int3 stands there, and what it hides is stepped over.
static bool put_int3(bool stands)
{
	uint8_t byte = stands ? 0xcc : seek.hidden;
	return gr_text_write(seek.state.greg[REG_RIP], &byte, sizeof byte, GR_TEXT);
}

static void close_breakpoint(void)
{
	if (!seek.fd)
		return;
	if (seek.traps)
		put_int3(false);
	else
		GR_RAW(SYS_close, seek.fd - 1);
	seek.traps = false;
	seek.fd = 0;
	seek.began += gr_loop_time() - seek.opened; // most of that was not the program's
}

static void open_breakpoint(struct gr_thread *self)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_BREAKPOINT, .size = sizeof attr, .bp_type = HW_BREAKPOINT_X, .bp_addr = seek.state.greg[REG_RIP],
		.bp_len = sizeof(long), .sample_period = 1, .exclude_kernel = 1, .exclude_hv = 1, .remove_on_exec = 1, .sigtrap = 1,
		.sig_data = SEEK_MARK,
	};
	gr_tick_arm(self, 0, 0);
	stay_no_longer();
	bool refused = gr_ctl->knob[GR_KNOB_points] == 2; // ptrace: as where they are refused
	long fd = refused ? -EACCES : GR_RAW(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	if (GR_IS_ERR(fd)) {
		seek.traps = gr_peek(&seek.hidden, attr.bp_addr, sizeof seek.hidden) == sizeof seek.hidden && put_int3(true);
		if (!seek.traps)
			gr_panic(self, GR_PANIC_REFUSED, "a breakpoint at 0x%x (error %d), which a stop in the middle of a computation needs",
				 attr.bp_addr, -fd);
		fd = 0;
	}
	long high = seek.traps ? -1 : GR_RAW(SYS_fcntl, fd, F_DUPFD_CLOEXEC, PERF_FD_MIN);
	if (!GR_IS_ERR(high)) {
		GR_RAW(SYS_close, fd);
		fd = high;
	}
	seek.fd = fd + 1;
	seek.opened = gr_loop_time();
	seek.told = 0;
	seek.again = 0;
	seek.in_front = false;
}

static bool set_timer(struct gr_thread *self, uint64_t next)
{
	seek.next = next;
	return gr_tick_arm(self, next, GR_TICK_LOST);
}

// No look was had or it tells nothing. What was planned still holds, so no more than that may pass; but a timer that is too
// short for a handler to return would let the program do nothing at all.
static void look_again(struct gr_thread *self)
{
	uint64_t next = seek.next + seek.next / 2;
	seek.muddled = true;
	set_timer(self, next < FIRST_TICK ? next : FIRST_TICK);
}

void gr_loop_seek(struct gr_thread *self, const void *state)
{
	if (seek.on)
		close_breakpoint(); // the end of an operation may ask twice
	memset(&seek, 0, sizeof seek);
	memcpy(&seek.state, state, sizeof seek.state);
	seek.on = true;
	seek.began = gr_loop_time();
	seek.stretch = STRETCH;
	seek.overhead = seek.grain = ~0ULL;
	if (seek.state.pilot)
		stay();
	if (!seek.state.pilot || !set_timer(self, FIRST_TICK))
		open_breakpoint(self);
}

bool gr_loop_seeks(void)
{
	return seek.on;
}

static uint64_t distance(uint64_t value)
{
	return seek.state.falls ? value - seek.state.pilot_value : seek.state.pilot_value - value;
}

// The pilot of an inner loop passes its recorded value many times. How long the thread had computed says when it is too early for
// the moment, and when it is too late; in between, one that was seen to begin again may do so once more.
static bool comes_again(void)
{
	uint64_t spent = (seek.fd ? seek.opened : gr_loop_time()) - seek.began; // a breakpoint's time is its own
	if (seek.state.least && spent < seek.state.least / 2)
		return seek.wraps = true;
	return seek.wraps && seek.state.most && spent < seek.state.most / 2 * 3 + 300000000;
}

static void wait_for_it(struct gr_thread *self)
{
	seek.time = seek.pace = seek.odd = 0;
	seek.seen_closer = false;
	seek.grain = ~0ULL;
	stay();
	set_timer(self, FIRST_TICK);
}

// A timer that came much too late: once more from where the search began, with a longer last stretch.
static void passed(struct gr_thread *self, struct gr_context *at)
{
	const char *lacks = "a signal in the middle of a computation, whose place was passed again and again";
	if (++seek.attempts == MANY_ATTEMPTS || (lacks = gr_origin_return(self, at)))
		lost(self, at, lacks);
	close_breakpoint();
	seek.began = gr_loop_time();
	seek.wraps = false;
	seek.stretch *= 2;
	wait_for_it(self);
}

// How fast the pilot is at most. The timer counts the machine's time, and from before the handler has returned: a short tick
// is mostly not the program's, and one that came while others had the processor is not at all. Where the overhead is not
// small, what is known of the pace stays. (Taken for a slower one, as it looks then, the next tick would come behind the moment.)
static void measure(uint64_t step, uint64_t took)
{
	if (step < seek.grain)
		seek.grain = step;
	if (!seek.muddled && took > seek.next && took - seek.next < seek.overhead)
		seek.overhead = took - seek.next;
	uint64_t other = seek.overhead < took ? 2 * seek.overhead : took / 2;
	if (seek.pace && (seek.muddled || took < 3 * other))
		return;
	if (took < other + SHORT_TICK / 2)
		return;
	uint64_t pace = (uint64_t)((__uint128_t)step * 1000000 / (took - other));
	bool likely = pace / 4 <= seek.claim && seek.claim / 4 <= pace;
	seek.claim = pace;
	if (!likely)
		return;
	if (took >= FIRST_TICK) // a short one does not tell that it became slower
		seek.pace -= seek.pace / 4;
	seek.pace = pace > seek.pace ? pace : seek.pace ? seek.pace : 1;
}

// INVARIANT(never-all-the-way): the next look is a quarter of the way to the moment, so a timer that comes late does not miss it.
static void tick(struct gr_thread *self, struct gr_context *at)
{
	gr_origin_keep(self, at);
	uint64_t value, time = gr_loop_time();
	if (!gr_state_pilot(at, seek.state.pilot, &value)) {
		look_again(self);
		return;
	}
	if (seek.time && value == seek.value) { // it rests, or the timer ran out while others had the processor
		look_again(self);
		return;
	}
	uint64_t left = distance(value);
	bool towards = seek.time && (seek.state.falls ? value < seek.value : value > seek.value);
	bool beyond = towards && (int64_t)left < 0;
	bool closer = towards && !beyond && left < distance(seek.value);
	// A register is the pilot in most of a loop, and in the rest of it something else; in front of the loop, so is a word.
	if ((beyond || (seek.seen_closer && seek.time && !closer)) && ++seek.odd < ODD_LOOKS << seek.attempts) {
		look_again(self);
		return;
	}
	seek.odd = 0;
	seek.wraps |= seek.seen_closer && seek.time && !towards;
	if (beyond && comes_again()) {
		wait_for_it(self);
		return;
	}
	if (beyond) {
		passed(self, at);
		return;
	}
	// Before its own loop the pilot may hold anything: then only time passes.
	uint64_t next = seek.passes ? MEASURED_TICK : FIRST_TICK;
	if (closer) {
		seek.seen_closer = true;
		measure(seek.state.falls ? seek.value - value : value - seek.value, time - seek.time);
		next = seek.next > MEASURED_TICK ? seek.next : MEASURED_TICK;
	}
	if (closer && seek.pace) {
		uint64_t rest = (uint64_t)((__uint128_t)left * 1000000 / seek.pace);
		bool here = rest < seek.stretch || left <= seek.grain;
		if (here && seek.state.least && !gr_state_rests(&seek.state)) { // in another stretch, whose inner loop is this far
			wait_for_it(self);
			return;
		}
		if (here) {
			open_breakpoint(self);
			return;
		}
		uint64_t most = seek.next < 5 * FIRST_TICK ? 4 * seek.next : 20 * FIRST_TICK; // the pace may change
		next = rest / 4 < most ? rest / 4 : most;
	}
	seek.value = value;
	seek.time = gr_loop_time();
	seek.muddled = false;
	set_timer(self, next);
}

// The pace may have changed: then there are more passes to come than a breakpoint is for.
static void probe(struct gr_thread *self, uint64_t value)
{
	if (seek.again++ == 0) {
		seek.probe = value;
		return;
	}
	uint64_t step = seek.state.falls ? seek.probe - value : value - seek.probe;
	if (seek.again <= PROBE || (int64_t)step < 0 || distance(value) / (step + 1) < FEW_PASSES / PROBE)
		return;
	close_breakpoint();
	seek.time = seek.pace = seek.odd = 0;
	stay();
	set_timer(self, MEASURED_TICK);
}

bool gr_loop_is_trap(const siginfo_t *info, const struct gr_context *at)
{
	return seek.on && seek.traps && info->si_code == SI_KERNEL && at->greg[REG_RIP] == seek.state.greg[REG_RIP] + 1;
}

// Behind each instruction that is stepped. Whoever else steps clears the flag himself.
void gr_loop_stepped(void)
{
	if (seek.traps && seek.steps)
		put_int3(true);
	seek.steps = false;
}

// A pass was looked at and is not it.
static void pass_on(struct gr_context *at)
{
	if (!seek.traps)
		return;
	seek.steps = put_int3(false);
	at->greg[REG_EFL] |= EFLAGS_TF | EFLAGS_RF; // a point here was hit in front of the int3
}

bool gr_loop_merged(void)
{
	uint64_t count;
	return seek.on && seek.fd && !seek.traps && GR_RAW(SYS_read, seek.fd - 1, &count, sizeof count) == sizeof count &&
	       count > seek.told;
}

static bool pass(struct gr_thread *self, struct gr_context *at);

bool gr_loop_there(struct gr_thread *self, const siginfo_t *info, struct gr_context *at, bool in_program)
{
	if (!seek.on)
		return false;
	if (gr_tick_is(self, info)) {
		if (seek.fd)
			return false; // it was on its way when the breakpoint was opened
		if (in_program)
			tick(self, at);
		else
			look_again(self);
		return false;
	}
	bool traps = gr_loop_is_trap(info, at);
	at->greg[REG_RIP] -= traps;
	bool perf = info->si_code == GR_TRAP_PERF && *(const uint64_t *)((const char *)info + 24) == SEEK_MARK;
	if (!in_program || (!perf && !traps))
		return false;
	seek.told++;
	if (pass(self, at))
		return true;
	pass_on(at);
	return false;
}

// The thread is at the instruction. True when it is there at the moment, too.
static bool pass(struct gr_thread *self, struct gr_context *at)
{
	uint64_t value;
	if (gr_state_is(self, at, &seek.state, &seek.looks)) {
		close_breakpoint();
		gr_origin_drop();
		seek.on = false;
		return true;
	}
	if (seek.state.pilot && gr_state_pilot(at, seek.state.pilot, &value)) {
		int64_t left = (int64_t)distance(value);
		if (left < 0 && (seek.in_front || seek.seen_closer) && comes_again()) {
			close_breakpoint();
			wait_for_it(self);
			return false;
		}
		if (left < 0 && seek.in_front && !(seek.wraps && seek.attempts == 0)) {
			if (++seek.beyond % FEW_BEYOND)
				return false;
			if (seek.beyond >= NOISY_ATTEMPTS * FEW_BEYOND)
				lost(self, at, "a signal in the middle of a computation, whose place was not found");
			passed(self, at);
			return false;
		}
		if (left < 0 && seek.seen_closer) {
			passed(self, at);
			return false;
		}
		seek.in_front |= left > 0 && seek.seen_closer;
		probe(self, value);
	}
	if (++seek.passes == MANY_PASSES || seek.looks == MANY_LOOKS)
		lost(self, at, "a signal in the middle of a computation, whose place was not found");
	return false;
}
