// The proof that a thread spins; see preempt.h. Brent's way to find a cycle: the state that is compared with moves on behind 1, 2, 4 ...
// steps, so a cycle that begins late is found as well. INVARIANT(no-net-store): each word that an instruction touched since then,
// by reading or by writing, is what it was at its first touch. With registers and vector state equal, too, what comes next is what
// came before, for as long as nobody else changes one of these words; and nobody else runs.
// Runs in: the engine's handlers, on their stack.
// May call: core, patch's decoder.
// Owns: the proof under way. Only who has the turn is in one.
#include "preempt.h"

#include <ucontext.h>

#include "../../core/copy.h"
#include "../../core/nolibc.h"
#include "../../patch/decode.h"

#define STEPS 4000
#define WORDS 512
#define PAGE 4096ULL
#define EFLAGS_OF_DEBUGGING 0x10100ULL // RF and TF
#define LONGEST 15
#define PLACES 16 // of a `pause` in loops that cannot be proved; then the oldest is forgotten

static struct {
	uint32_t steps, moves; // the step at which the state moves on
	uint64_t greg[GR_STATE_REGISTERS], vectors;
	uint64_t pause; // the newest that was executed; 0: none
	uint64_t rip, there; // of the instruction that is being stepped over, and how much of `code` was there
	uint8_t code[LONGEST];
	uint32_t count;
	struct { uint64_t addr, value; } word[WORDS];
} spin;

static uint64_t places[PLACES];
static uint32_t found;

static void move_on(const struct gr_context *at)
{
	memcpy(spin.greg, at->greg, sizeof spin.greg);
	spin.greg[REG_EFL] &= ~EFLAGS_OF_DEBUGGING;
	spin.vectors = gr_state_vectors(at);
	spin.count = 0;
	spin.moves = spin.steps ? 2 * spin.steps : 1;
}

// False if there are too many. What is not there cannot be read, and the instruction will fault.
static bool touch_word(uint64_t addr)
{
	uint64_t value;
	for (uint32_t i = 0; i < spin.count; i++)
		if (spin.word[i].addr == addr)
			return true;
	if (spin.count == WORDS || gr_peek(&value, addr, sizeof value) != sizeof value)
		return false;
	spin.word[spin.count].addr = addr;
	spin.word[spin.count++].value = value;
	return true;
}

static enum gr_spin touch(struct gr_thread *self, const struct gr_context *at)
{
	struct gr_touch touches[GR_TOUCHES];
	enum gr_touched known = gr_touch(self, at, touches);
	if (known != GR_TOUCH_KNOWN)
		return known == GR_TOUCH_COUNTER ? GR_SPIN_COUNTER : GR_SPIN_NONE;
	for (unsigned i = 0; i < GR_TOUCHES; i++)
		for (uint64_t word = touches[i].addr & ~7ULL; word < touches[i].addr + touches[i].len; word += 8)
			if (!touch_word(word))
				return GR_SPIN_NONE;
	return GR_SPIN_ON;
}

static bool is_back(const struct gr_context *at)
{
	uint64_t value;
	if (at->greg[REG_RIP] != spin.greg[REG_RIP])
		return false;
	for (int i = 0; i < REG_EFL; i++)
		if (at->greg[i] != spin.greg[i])
			return false;
	if ((at->greg[REG_EFL] & ~EFLAGS_OF_DEBUGGING) != spin.greg[REG_EFL])
		return false;
	for (uint32_t i = 0; i < spin.count; i++)
		if (gr_peek(&value, spin.word[i].addr, sizeof value) != sizeof value || value != spin.word[i].value)
			return false;
	return gr_state_vectors(at) == spin.vectors;
}

// Which words count. False if they lie on too many pages.
static bool describe(struct gr_state *ret)
{
	memset(ret, 0, sizeof *ret);
	for (uint32_t i = 0; i < spin.count; i++) {
		uint64_t page = spin.word[i].addr & ~(PAGE - 1), bit = spin.word[i].addr % PAGE / 8;
		uint64_t p = 0;
		while (p < ret->partial && ret->page[p] != page)
			p++;
		if (p == GR_STATE_PAGES)
			return false;
		if (p == ret->partial)
			ret->page[ret->partial++] = page;
		ret->words[p][bit / 64] |= 1ULL << bit % 64;
	}
	ret->partial++;
	return true;
}

// ---------------------------------------------------------------- `pause`
static bool is_pause(void)
{
	return spin.there >= 2 && spin.code[0] == 0xf3 && spin.code[1] == 0x90;
}

// What is not proved, but executes `pause`, says itself that it waits, which nobody does who has something to compute.
static enum gr_spin none(void)
{
	if (!spin.pause)
		return GR_SPIN_NONE;
	places[found++ % PLACES] = spin.pause;
	return GR_SPIN_PAUSES;
}

bool gr_spin_pauses(const struct gr_context *at)
{
	uint64_t rip = at->greg[REG_RIP];
	for (unsigned i = 0; i < PLACES; i++)
		if (rip == places[i] || rip == places[i] + 2) // nearly all of the loop's time
			return true;
	return false;
}

// ---------------------------------------------------------------- steps
// INVARIANT(each-step-seen): below a debugger a step may be told twice, or not at all, when its signal meets another one; then what
// was touched is not all that the cycle touches.
static bool leads_to(uint64_t rip)
{
	struct gr_insn insn;
	if (!gr_decode(spin.code, spin.there, &insn))
		return false;
	uint64_t next = spin.rip + insn.length, target = next + (uint64_t)(int64_t)insn.rel;
	switch (insn.kind) {
	case GR_INSN_JCC:
	case GR_INSN_LOOP:
		return rip == next || rip == target;
	case GR_INSN_JMP:
	case GR_INSN_CALL:
		return rip == target;
	case GR_INSN_INDIRECT:
	case GR_INSN_RET:
		return rip != next;
	default:
		return rip == next;
	}
}

static enum gr_spin step(struct gr_thread *self, const struct gr_context *at)
{
	spin.rip = at->greg[REG_RIP];
	spin.there = gr_peek(spin.code, spin.rip, sizeof spin.code);
	if (is_pause())
		spin.pause = spin.rip;
	enum gr_spin found_out = touch(self, at);
	return found_out == GR_SPIN_NONE ? none() : found_out;
}

enum gr_spin gr_spin_begin(struct gr_thread *self, const struct gr_context *at)
{
	spin.steps = 0;
	spin.pause = 0;
	move_on(at);
	return step(self, at);
}

enum gr_spin gr_spin_step(struct gr_thread *self, const struct gr_context *at, struct gr_state *ret)
{
	bool seen = leads_to(at->greg[REG_RIP]);
	spin.steps++;
	if (seen && is_back(at)) {
		if (!describe(ret))
			return none();
		gr_state_take(self, at, ret);
		return GR_SPIN_PROVED;
	}
	if (spin.steps == STEPS)
		return none();
	if (!seen || spin.steps == spin.moves)
		move_on(at);
	return step(self, at);
}
