// The time stamp counter; see tsc.h. The kernel makes the instructions fault; here their result is found, logged and injected.
// Runs in: the handler of SIGSEGV, on the engine's alternate stack; the constructor; threads at their birth.
// May call: core, log, replay.
// Owns: the kernel's setting of PR_SET_TSC for each thread.
#include "tsc.h"

#include <errno.h>
#include <sys/prctl.h>
#include <ucontext.h>

#include "../../core/copy.h"
#include "../../core/guard.h"
#include "../../core/nolibc.h"
#include "../../core/ops.h"
#include "../../core/panic.h"
#include "../../core/raw.h"
#include "../../log/log.h"
#include "../../log/turn.h"
#include "../../replay/gate.h"
#include "clock.h"

#define EFLAGS_RF 0x10000
#define LONGEST 15

// ---------------------------------------------------------------- the kernel's setting
static bool allow(bool allowed)
{
	return GR_RAW(SYS_prctl, PR_SET_TSC, allowed ? PR_TSC_ENABLE : PR_TSC_SIGSEGV, 0, 0, 0) == 0;
}

static bool is_own_wish(const struct gr_thread *self)
{
	return self->tsc == PR_TSC_SIGSEGV;
}

void gr_tsc_born(const struct gr_thread *self)
{
	if (gr_tsc_recorded && !allow(false))
		gr_panic(gr_self, GR_PANIC_REFUSED, "the class tsc on a kernel that does not let rdtsc be trapped"
			 "\nrecord with --set tsc=native", 0, 0);
	else if (gr_tsc_trapped)
		allow(!gr_tsc_recorded && !is_own_wish(self));
}

void gr_tsc_give_back(const struct gr_thread *self)
{
	if (gr_tsc_trapped)
		allow(!is_own_wish(self));
}

// ---------------------------------------------------------------- the program's own setting
long gr_tsc_set(struct gr_thread *self, uint64_t value)
{
	if ((uint32_t)value != PR_TSC_ENABLE && (uint32_t)value != PR_TSC_SIGSEGV)
		return -EINVAL;
	self->tsc = (uint32_t)value;
	if (is_own_wish(self))
		gr_tsc_trapped = true; // for good: the engine itself reads the counter no more
	gr_tsc_born(self);
	return 0;
}

long gr_tsc_get(const struct gr_thread *self, uint64_t addr)
{
	uint32_t value = is_own_wish(self) ? PR_TSC_SIGSEGV : PR_TSC_ENABLE;
	uint32_t there; // the kernel stores all of a word or nothing
	return gr_peek(&there, addr, sizeof there) == sizeof there && gr_poke(addr, &value, sizeof value) == sizeof value ? 0 : -EFAULT;
}

// ---------------------------------------------------------------- the instructions
enum { COUNTER = 1, COUNTER_AND_PROCESSOR = 2 }; // rdtsc, rdtscp

static bool is_prefix(uint8_t byte)
{
	static const uint8_t others[] = {0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65, 0x66, 0x67, 0xf2, 0xf3};
	for (unsigned i = 0; i < sizeof others; i++)
		if (byte == others[i])
			return true;
	return (byte & 0xf0) == 0x40;
}

static int without_prefix(const uint8_t *code, uint64_t left)
{
	if (left >= 2 && code[0] == 0x0f && code[1] == 0x31)
		return COUNTER;
	return left >= 3 && code[0] == 0x0f && code[1] == 0x01 && code[2] == 0xf9 ? COUNTER_AND_PROCESSOR : 0;
}

// What reads the counter at `rip`, and how long it is; 0 if nothing does. A debugger that stepped over its breakpoint here
// has put that back by now: an int3 cannot have raised this fault, so it stands for the byte it hides.
static int counter_at(uint64_t rip, unsigned *length)
{
	uint8_t code[LONGEST];
	uint64_t have = gr_peek(code, rip, sizeof code), prefixes = 0;
	for (unsigned hidden = 0; hidden < 2; hidden++) {
		if (hidden && (!have || code[0] != 0xcc))
			return 0;
		if (hidden)
			code[0] = 0x0f;
		for (prefixes = 0; prefixes < have && is_prefix(code[prefixes]); prefixes++)
			;
		int found = without_prefix(code + prefixes, have - prefixes);
		if (!found && hidden && have)
			found = without_prefix(code + (prefixes = 1), have - 1);
		if (found) {
			*length = (unsigned)prefixes + 1 + (unsigned)found;
			return found;
		}
	}
	return 0;
}

struct reading { uint32_t low, high, processor; };

static struct reading read_counter(int which)
{
	uint64_t counter = gr_tsc_clock();
	return (struct reading){(uint32_t)counter, (uint32_t)(counter >> 32), which == COUNTER ? 0 : gr_tsc_processor()};
}

// ---------------------------------------------------------------- the operation
// Which instruction it is: code stands at the same addresses in a recording and its replay.
static uint32_t check_of(uint64_t rip, int which)
{
	uint64_t hash = gr_hash_word(gr_hash_word(GR_HASH_SEED, rip), (uint64_t)which);
	hash ^= hash >> 32;
	return (uint32_t)hash ? (uint32_t)hash : 1;
}

static struct reading operation(struct gr_thread *self, struct gr_context *at, int which, unsigned length)
{
	struct reading now;
	const uint32_t check = check_of(at->greg[REG_RIP], which);
	struct gr_event ev = {.kind = GR_OP_TSC, .check = check};
	gr_show_context(self, at);
	self->pub.op = GR_OP_TSC;
	self->pub.ret_pc = at->greg[REG_RIP] + length;
	self->pub.state = GR_T_ENGINE;
	if (gr_gate_steps(self))
		gr_gate_step(self, GR_STEP_CALL);
	if (!gr_signal_none(self)) {
		gr_signal_before_fault(self, at);
		if (gr_mode == GR_MODE_RECORD)
			at->mask = gr_mask_kernel(self);
	}
	if (gr_mode == GR_MODE_RECORD) {
		now = read_counter(which);
		ev.result = (int64_t)((uint64_t)now.high << 32 | now.low);
		ev.object = now.processor;
		gr_log(self, &ev);
		return now;
	}
	gr_gate_next(self, GR_OP_TSC, 0, 0, &ev);
	if (ev.check != check)
		gr_gate_desync(self, &ev, GR_OP_TSC, 0, 0, "the time stamp counter, read by another instruction");
	gr_signal_seek(self);
	return (struct reading){(uint32_t)ev.result, (uint32_t)((uint64_t)ev.result >> 32), (uint32_t)ev.object};
}

// What no operation stands for, library code on behalf of one, reads the counter as it is.
bool gr_tsc_fault(struct gr_thread *self, struct gr_context *at)
{
	unsigned length;
	int which = counter_at(at->greg[REG_RIP], &length);
	bool program = self && gr_context_is_program(self, at);
	if (!which || (program && is_own_wish(self)))
		return false;
	if (program && gr_closed && gr_mode == GR_MODE_RECORD) { // nothing is recorded any more
		gr_tsc_give_back(self);
		return true;
	}
	at->greg[REG_EFL] &= ~(uint64_t)EFLAGS_RF; // the instruction behind it may be a breakpoint
	bool recorded = program && gr_mode != GR_MODE_OFF;
	struct reading now = recorded ? operation(self, at, which, length) : read_counter(which);
	at->greg[REG_RAX] = now.low;
	at->greg[REG_RDX] = now.high;
	if (which == COUNTER_AND_PROCESSOR)
		at->greg[REG_RCX] = now.processor;
	at->greg[REG_RIP] += length;
	if (recorded) {
		gr_context_out(self, at);
		self->pub.state = GR_T_RUNNING;
	}
	return true;
}
