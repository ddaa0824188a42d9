// Finding a moment between two operations again. No counter of the processor says how far a thread is in a loop; what it
// has computed does. The recording keeps the whole state and one word of it that only rises or only falls, the pilot. The
// replay lets the program run, looks at the pilot ever more often the closer it comes, and takes each pass of the
// recorded instruction only for the last stretch. INVARIANT(equal-state-equal-future): the signal is delivered where
// registers and memory are those of the recording, and nowhere else: two such moments have the same future.
// Runs in: the engine's handlers, on their stack.
// May call: core, replay.
// Owns: a scratch area for each thread, the breakpoint of a search.
#include "loop.h"

#include <fcntl.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>

#include "../core/copy.h"
#include "../core/guard.h"
#include "../core/nolibc.h"
#include "../core/ops.h"
#include "../core/panic.h"
#include "../core/raw.h"
#include "../replay/gate.h"

#define PAGE 4096ULL
#define SCRATCH_SIZE 0x10000000ULL
#define LOOKS 12           // a word of noise rises in all of them once in many millions
#define LONGEST_STEP (1ULL << 60)
#define CHANGED 64        // pages that are looked at
#define LOOK_RAN 200000   // ns that a thread ran between two looks: with the machine busy, less than passed
#define STRETCH 5000      // ns before the moment from which every pass is looked at
#define PROBE 500         // passes after which it is known how many more there will be ...
#define FEW_PASSES 100000 // ... and more than these are left to the timer again
#define FIRST_TICK 200000
#define SHORT_TICK 15000
#define MEASURED_TICK (2 * SHORT_TICK) // most of it is the program's
#define ODD_LOOKS 3U      // looks in a row at a pilot that is not on its way, before that is believed
#define MANY_ATTEMPTS 12
#define MANY_PASSES 3000000
#define MANY_LOOKS 2000   // passes with equal registers and other memory
#define SIGTRAP_PERF 6
#define SEEK_MARK 0x200   // sig_data of our breakpoint: watch/points.c hands it on
#define PERF_FD_MIN 900

struct scratch {
	uint32_t looks, changed, pages;
	uint64_t registers[16];
	uint8_t register_may[16]; // bit 0: rises, bit 1: falls
	uint64_t page[CHANGED];
	uint64_t word[CHANGED][PAGE / 8];
	uint8_t may[CHANGED][PAGE / 8];
	uint64_t delta[CHANGED][PAGE / 8];
	uint64_t moved[CHANGED][PAGE / 512]; // a bit for each word that was seen to change
	uint64_t register_delta[16];
	uint64_t ran; // the thread's time at the end of the newest look
	uint64_t hash[]; // of each page, in the order of the ranges
};

_Static_assert(GR_SCRATCH_ADDR + GR_LIVE_THREADS * SCRATCH_SIZE <= GR_ORIGIN_ADDR, "zone layout");

static struct scratch *scratch_of(struct gr_thread *self)
{
	uint64_t addr = GR_SCRATCH_ADDR + (uint64_t)self->block * SCRATCH_SIZE;
	if (!self->scratch)
		self->scratch = GR_RAW(SYS_mmap, addr, SCRATCH_SIZE, PROT_READ | PROT_WRITE,
				       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0) == (long)addr;
	return self->scratch ? (struct scratch *)addr : NULL;
}

// The thread's own time: how fast it is does not depend on what else the machine does.
static uint64_t now(void)
{
	struct timespec time;
	GR_RAW(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, &time);
	return (uint64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

// ---------------------------------------------------------------- recording
struct pass { struct gr_thread *self; struct scratch *s; uint32_t at; };

static void first_look(void *arg, uint64_t from, uint64_t to)
{
	struct pass *pass = arg;
	uint32_t most = (SCRATCH_SIZE - sizeof *pass->s) / 8;
	for (uint64_t page = from & ~(PAGE - 1); page < to && pass->at < most; page += PAGE)
		pass->s->hash[pass->at++] = gr_state_page(pass->self, page, from, to);
}

static void second_look(void *arg, uint64_t from, uint64_t to)
{
	struct pass *pass = arg;
	struct scratch *s = pass->s;
	for (uint64_t page = from & ~(PAGE - 1); page < to && pass->at < s->pages; page += PAGE) {
		if (s->hash[pass->at++] == gr_state_page(pass->self, page, from, to) || s->changed == CHANGED)
			continue;
		s->page[s->changed] = page;
		memcpy(s->word[s->changed], (const void *)page, PAGE);
		memset(s->may[s->changed], 3, PAGE / 8);
		memset(s->moved[s->changed], 0, sizeof s->moved[0]);
		s->changed++;
	}
}

// Strictly up or strictly down since the look before; the rest is no pilot.
static void compare(uint64_t *was, uint64_t now, uint8_t *may, uint64_t *delta)
{
	int64_t step = (int64_t)(now - *was);
	*delta = step < 0 ? -(uint64_t)step : (uint64_t)step;
	*may &= *delta >= LONGEST_STEP ? 0 : step > 0 ? 1 : step < 0 ? 2 : 0; // noise wraps around
	*was = now;
}

static void later_look(struct scratch *s, const struct gr_context *at)
{
	for (int i = 0; i < 16; i++)
		compare(&s->registers[i], at->greg[i], &s->register_may[i], &s->register_delta[i]);
	for (uint32_t i = 0; i < s->changed; i++)
		for (uint32_t w = 0; w < PAGE / 8; w++) {
			uint64_t now = ((const uint64_t *)s->page[i])[w];
			s->moved[i][w / 64] |= (uint64_t)(now != s->word[i][w]) << w % 64;
			compare(&s->word[i][w], now, &s->may[i][w], &s->delta[i][w]);
		}
}

// The fastest, so that the distance is known finely.
static void choose(const struct scratch *s, struct gr_state *ret)
{
	uint64_t best = 0;
	ret->pilot = 0;
	for (int i = 0; i < 16; i++)
		if (s->register_may[i] && i != REG_RSP && s->register_delta[i] > best) {
			best = s->register_delta[i];
			ret->pilot = i + 1;
			ret->pilot_value = s->registers[i];
			ret->falls = s->register_may[i] == 2;
		}
	for (uint32_t i = 0; i < s->changed; i++)
		for (uint32_t w = 0; w < PAGE / 8; w++)
			if (s->may[i][w] && s->delta[i][w] > best) {
				best = s->delta[i][w];
				ret->pilot = s->page[i] + 8 * w;
				ret->pilot_value = s->word[i][w];
				ret->falls = s->may[i][w] == 2;
			}
}

// A breakpoint does not stop at each round of a `rep`.
static bool is_repeating(uint64_t rip)
{
	uint8_t bytes[5] = {0};
	bool repeats = false;
	gr_peek(bytes, rip, sizeof bytes);
	for (unsigned i = 0; i < sizeof bytes; i++) {
		uint8_t byte = bytes[i];
		if (byte == 0xf2 || byte == 0xf3)
			repeats = true;
		else if (byte != 0x66 && byte != 0x67 && (byte & 0xf0) != 0x40)
			return repeats && ((byte >= 0x6c && byte <= 0x6f) || (byte >= 0xa4 && byte <= 0xa7) || (byte >= 0xaa && byte <= 0xaf));
	}
	return repeats;
}

static bool is_alone(const struct gr_thread *self)
{
	const struct gr_thread *t;
	for (uint32_t i = 0; i < GR_LIVE_THREADS && (t = gr_thread_block(i))->pub.tid; i++)
		if (t != self && t->pub.state != GR_T_FREE && t->pub.state != GR_T_EXITED)
			return false;
	return true;
}

// A thread that did not run since the look before stands where it stood, and its pilot would be taken for a word that rests.
bool gr_loop_look(struct gr_thread *self, const struct gr_context *at, struct gr_state *ret)
{
	struct scratch *s = scratch_of(self);
	struct pass pass = {self, s, 0};
	if (!s || (s->looks && now() - s->ran < LOOK_RAN))
		return false;
	switch (s->looks) {
	case 0:
		gr_state_ranges(self, at, first_look, &pass);
		s->pages = pass.at;
		break;
	case 1:
		s->changed = 0;
		gr_state_ranges(self, at, second_look, &pass);
		memcpy(s->registers, at->greg, sizeof s->registers);
		memset(s->register_may, 3, sizeof s->register_may);
		break;
	default:
		later_look(s, at);
	}
	s->looks++;
	s->ran = now();
	if (s->looks < LOOKS || is_repeating(at->greg[REG_RIP]))
		return false;
	memset(ret, 0, sizeof *ret);
	choose(s, ret);
	for (; ret->partial < s->changed && ret->partial < GR_STATE_PAGES; ret->partial++) {
		ret->page[ret->partial] = s->page[ret->partial];
		memcpy(ret->words[ret->partial], s->moved[ret->partial], sizeof ret->words[0]);
	}
	ret->partial++;
	if (is_alone(self))
		ret->partial |= GR_STATE_WHOLE;
	gr_state_take(self, at, ret);
	return true;
}

void gr_loop_forget(struct gr_thread *self)
{
	if (self->scratch)
		scratch_of(self)->looks = 0;
}

// ---------------------------------------------------------------- replaying
static struct {
	struct gr_state state;
	bool on;
	long fd;          // plus 1; 0: no breakpoint yet
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
	uint32_t passes, looks;
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

static void close_breakpoint(void)
{
	if (seek.fd)
		GR_RAW(SYS_close, seek.fd - 1);
	seek.fd = 0;
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
	long fd = GR_RAW(SYS_perf_event_open, &attr, self->pub.tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
	if (GR_IS_ERR(fd))
		gr_panic(self, GR_PANIC_REFUSED,
			 "a hardware breakpoint at 0x%x (error %d), which a signal in the middle of a computation needs",
			 attr.bp_addr, -fd);
	long high = GR_RAW(SYS_fcntl, fd, F_DUPFD_CLOEXEC, PERF_FD_MIN);
	if (!GR_IS_ERR(high)) {
		GR_RAW(SYS_close, fd);
		fd = high;
	}
	seek.fd = fd + 1;
	seek.again = 0;
	seek.in_front = false;
}

static bool set_timer(struct gr_thread *self, uint64_t next)
{
	seek.next = next;
	return gr_tick_arm(self, next, 0);
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
	memset(&seek, 0, sizeof seek);
	memcpy(&seek.state, state, sizeof seek.state);
	seek.on = true;
	seek.stretch = STRETCH;
	seek.overhead = seek.grain = ~0ULL;
	if (seek.state.pilot)
		stay();
	if (!seek.state.pilot || !set_timer(self, FIRST_TICK))
		open_breakpoint(self);
}

static uint64_t distance(uint64_t value)
{
	return seek.state.falls ? value - seek.state.pilot_value : seek.state.pilot_value - value;
}

// A timer that came much too late: once more from where the search began, with a longer last stretch.
static void passed(struct gr_thread *self, struct gr_context *at)
{
	const char *lacks = "a signal in the middle of a computation, whose place was passed again and again";
	if (++seek.attempts == MANY_ATTEMPTS || (lacks = gr_origin_return(self, at)))
		lost(self, at, lacks);
	close_breakpoint();
	seek.time = seek.pace = seek.odd = 0;
	seek.seen_closer = false;
	seek.grain = ~0ULL;
	seek.stretch *= 2;
	stay();
	set_timer(self, FIRST_TICK);
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
	seek.pace -= seek.pace / 4;
	seek.pace = pace > seek.pace ? pace : seek.pace ? seek.pace : 1;
}

// INVARIANT(never-all-the-way): the next look is a quarter of the way to the moment, so a timer that comes late does not miss it.
static void tick(struct gr_thread *self, struct gr_context *at)
{
	gr_origin_keep(self, at);
	uint64_t value, time = now();
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
		if (rest < seek.stretch || left <= seek.grain) {
			open_breakpoint(self);
			return;
		}
		uint64_t most = seek.next < 5 * FIRST_TICK ? 4 * seek.next : 20 * FIRST_TICK; // the pace may change
		next = rest / 4 < most ? rest / 4 : most;
	}
	seek.value = value;
	seek.time = now();
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

bool gr_loop_there(struct gr_thread *self, const siginfo_t *info, struct gr_context *at, bool in_program)
{
	uint64_t value;
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
	if (!in_program || info->si_code != SIGTRAP_PERF || *(const uint64_t *)((const char *)info + 24) != SEEK_MARK)
		return false;
	if (gr_state_is(self, at, &seek.state, &seek.looks)) {
		close_breakpoint();
		gr_origin_drop();
		seek.on = false;
		return true;
	}
	if (seek.state.pilot && gr_state_pilot(at, seek.state.pilot, &value)) {
		int64_t left = (int64_t)distance(value);
		if (left < 0 && seek.in_front)
			lost(self, at, "a signal in the middle of a computation, whose place was not found");
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
