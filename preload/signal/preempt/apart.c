// Single instructions, executed apart; see apart.h. What moves the stack pointer or the instruction pointer is done by hand. All else is
// executed by the processor, in a place of the engine's, with its operand in memory replaced by a copy and the stack
// pointer by another register: so there is no fault, and a signal finds the handlers' stack.
// Runs in: the engine's handlers, on their stack; a test.
// May call: core, patch.
// Owns: the copies, the places in places.S.
#include "apart.h"

#include <ucontext.h>

#include "../../core/copy.h"
#include "../../core/nolibc.h"
#include "../../patch/decode.h"
#include "../../patch/patch.h"

#define PLACES 64 // for as many instructions, by where they stand
#define PLACE 32
#define FLAGS 0xcd5ULL // CF PF AF ZF SF DF OF
#define FLAG_CARRY 0x1ULL
#define FLAG_PARITY 0x4ULL
#define FLAG_ZERO 0x40ULL
#define FLAG_SIGN 0x80ULL
#define FLAG_OVERFLOW 0x800ULL
#define FLAG_ALIGNS 0x40000ULL
#define MXCSR 24 // in what fxsave writes
#define MXCSR_MASKED 0x1f80U

struct gr_apart gr_apart;

// What places.S reads and writes.
struct gr_apart_native {
	uint64_t greg[GR_STATE_REGISTERS];
	uint64_t stack;
	uint64_t vector; // the vector state is wanted, too
	uint8_t vectors[512];
	uint8_t operand[16];
} __attribute__((aligned(16))) gr_apart_native;

_Static_assert(offsetof(struct gr_apart_native, vectors) == 160 && offsetof(struct gr_apart_native, operand) == 672, "places.S");
_Static_assert(REG_R8 == 0 && REG_RDI == 8 && REG_RSP == 15 && REG_RIP == 16 && REG_EFL == 17, "places.S");

extern uint8_t gr_apart_places[PLACES][PLACE], gr_apart_back[];
void gr_apart_run(const void *place, uint64_t flags);

static struct { uint8_t code[PLACE], length; } written[PLACES];
static long text = -1; // a descriptor, as long as steps are executed
static bool paused;

// ---------------------------------------------------------------- memory
// False if there are too many words, or what is there cannot be read: then the instruction will fault.
static bool touch_word(uint64_t addr)
{
	uint64_t value;
	for (uint32_t i = 0; i < gr_apart.count; i++)
		if (gr_apart.word[i].addr == addr)
			return true;
	if (gr_apart.count == GR_APART_WORDS || gr_peek(&value, addr, sizeof value) != sizeof value)
		return false;
	gr_apart.word[gr_apart.count].addr = addr;
	gr_apart.word[gr_apart.count].was = value;
	gr_apart.word[gr_apart.count++].now = value;
	return true;
}

static bool touch_all(const struct gr_touch touch[GR_TOUCHES])
{
	for (unsigned i = 0; i < GR_TOUCHES; i++)
		for (uint64_t word = touch[i].addr & ~7ULL; word < touch[i].addr + touch[i].len; word += 8)
			if (!touch_word(word))
				return false;
	return true;
}

// The copies of touched bytes, in or out.
static void move(uint64_t addr, uint8_t *bytes, uint64_t n, bool out)
{
	for (uint32_t i = 0; i < gr_apart.count; i++) {
		uint64_t word = gr_apart.word[i].addr;
		uint8_t *copy = (uint8_t *)&gr_apart.word[i].now;
		for (uint64_t at = 0; word + 8 > addr && word < addr + n && at < 8; at++)
			if (word + at - addr < n)
				*(out ? copy + at : bytes + (word + at - addr)) = *(out ? bytes + (word + at - addr) : copy + at);
	}
}

static uint64_t load(uint64_t addr)
{
	uint64_t value = 0;
	move(addr, (uint8_t *)&value, sizeof value, false);
	return value;
}

static void push(uint64_t value)
{
	gr_apart.greg[REG_RSP] -= 8;
	move(gr_apart.greg[REG_RSP], (uint8_t *)&value, sizeof value, true);
}

static uint64_t pop(void)
{
	gr_apart.greg[REG_RSP] += 8;
	return load(gr_apart.greg[REG_RSP] - 8);
}

// ---------------------------------------------------------------- by hand
static bool condition(unsigned cc)
{
	uint64_t flags = gr_apart.greg[REG_EFL];
	bool less = !(flags & FLAG_SIGN) != !(flags & FLAG_OVERFLOW), met = false;
	switch (cc >> 1 & 7) {
	case 0: met = flags & FLAG_OVERFLOW; break;
	case 1: met = flags & FLAG_CARRY; break;
	case 2: met = flags & FLAG_ZERO; break;
	case 3: met = flags & (FLAG_CARRY | FLAG_ZERO); break;
	case 4: met = flags & FLAG_SIGN; break;
	case 5: met = flags & FLAG_PARITY; break;
	case 6: met = less; break;
	case 7: met = less || flags & FLAG_ZERO; break;
	}
	return met != (cc & 1);
}

static uint64_t operand_of(const struct gr_meaning *m)
{
	return m->memory ? load(m->address) : *gr_touch_register(gr_apart.greg, (m->modrm & 7) | (m->rex & 1) << 3);
}

static bool is_jump(const struct gr_meaning *m)
{
	return m->kind >= GR_INSN_JCC && m->kind <= GR_INSN_RET;
}

// Where it goes on. `next` is behind the instruction.
static enum gr_touched jump(const struct gr_meaning *m, uint64_t next)
{
	uint64_t to = next + (uint64_t)(int64_t)m->rel;
	bool calls = m->opcode == 0xe8 || (m->opcode == 0xff && (m->modrm >> 3 & 7) == 2);
	uint16_t more = 0;
	if (m->size16 || m->kind == GR_INSN_LOOP)
		return GR_TOUCH_UNKNOWN;
	if (m->kind == GR_INSN_JCC)
		to = condition(m->opcode & 15) ? to : next;
	if (m->opcode == 0xff)
		to = operand_of(m);
	if (calls)
		push(next);
	if (m->kind == GR_INSN_RET) {
		to = pop();
		if (m->opcode == 0xc2)
			memcpy(&more, m->code + m->modrm_at, sizeof more);
		gr_apart.greg[REG_RSP] += more;
	}
	gr_apart.greg[REG_RIP] = to;
	return GR_TOUCH_KNOWN;
}

// False: it is nothing that is done by hand.
static bool by_hand(const struct gr_meaning *m)
{
	uint64_t *greg = gr_apart.greg, *reg = gr_touch_register(greg, (m->opcode & 7) | (m->rex & 1) << 3), value;
	int32_t constant = 0;
	if (m->escaped) // nothing but a hint
		return m->opcode == 0x0d || (m->opcode >= 0x18 && m->opcode < 0x20) || m->opcode == 0xae;
	if (m->opcode >= 0x50 && m->opcode < 0x58) {
		push(*reg);
	} else if (m->opcode >= 0x58 && m->opcode < 0x60) {
		value = pop();
		*reg = value;
	} else if (m->opcode == 0x68 || m->opcode == 0x6a) {
		memcpy(&constant, m->code + m->modrm_at, m->opcode == 0x68 ? 4 : 1);
		push((uint64_t)(int64_t)(m->opcode == 0x68 ? constant : (int8_t)constant));
	} else if (m->opcode == 0xc9) {
		greg[REG_RSP] = greg[REG_RBP];
		greg[REG_RBP] = pop();
	} else if (m->opcode == 0xff && (m->modrm >> 3 & 7) == 6) {
		push(operand_of(m));
	} else if (m->opcode == 0x8d && m->memory && !m->size16 && !m->fs) {
		*gr_touch_register(greg, (m->modrm >> 3 & 7) | (m->rex & 4) << 1) = m->rex & 8 ? m->address : (uint32_t)m->address;
	} else {
		return false;
	}
	return true;
}

// ---------------------------------------------------------------- by the processor
struct fields { unsigned reg, rm; bool has_reg, has_rm; }; // numbers of integer registers as wide as the operand

// False: one of them may be the stack pointer, in a place where nobody has it.
static bool fields_of(const struct gr_meaning *m, struct fields *ret)
{
	uint8_t op = m->opcode;
	bool has_modrm = m->operand_end, register_form = has_modrm && !m->memory;
	*ret = (struct fields){(m->modrm >> 3 & 7) | (m->rex & 4) << 1, (m->modrm & 7) | (m->rex & 1) << 3, has_modrm, register_form};
	if (!has_modrm) { // the register is a part of the opcode
		bool names = m->escaped ? op >= 0xc8 && op < 0xd0 : (op >= 0x90 && op < 0x98) || (op >= 0xb0 && op < 0xc0);
		return !names || (op & 7) != 4 || m->rex & 1 || (!m->escaped && op == 0xb4 && !m->rex); // that is ah
	}
	if (m->vector) {
		bool moves = op == 0x2a || op == 0x2c || op == 0x2d || op == 0x50 || op == 0x6e || op == 0x7e || op == 0xc3 || op == 0xc4 || op == 0xc5 ||
			     op == 0xd7;
		bool stack = moves && (ret->reg == 4 || (register_form && ret->rm == 4));
		ret->has_reg = ret->has_rm = false;
		return !stack;
	}
	if (m->escaped) {
		bool sets = op >= 0x90 && op < 0xa0, small = sets || op == 0xb0 || op == 0xc0 || op == 0xb6 || op == 0xbe;
		ret->has_reg = !sets && op != 0xba;
		return !small || ((!ret->has_reg || ret->reg != 4) && (!register_form || ret->rm != 4));
	}
	bool group = op == 0x80 || op == 0x81 || op == 0x83 || (op >= 0xc0 && op <= 0xc1) || op == 0xc6 || op == 0xc7 ||
		     (op >= 0xd0 && op <= 0xd3) || op == 0xf6 || op == 0xf7 || op == 0xfe || op == 0xff;
	ret->has_reg = !group;
	if (op & 1)
		return true;
	bool reg = ret->has_reg, rm = register_form;
	ret->has_reg = ret->has_rm = false; // bytes: without REX it is ah, else nobody's
	return !m->rex || !((reg && ret->reg == 4) || (rm && ret->rm == 4));
}

// The instruction as it is executed at `place`. Returns its length, and what stands in for the stack pointer (0: nothing).
static uint8_t rewrite(const struct gr_meaning *m, const struct fields *f, const uint8_t *place, uint8_t ret[PLACE],
		       unsigned *ret_stands_in)
{
	uint8_t n = 0, rex = m->rex, modrm = m->modrm;
	bool reg = f->has_reg && f->reg == 4, rm = f->has_rm && f->rm == 4;
	unsigned other = (f->has_reg && f->reg == 15) || (f->has_rm && f->rm == 15) ? 14 : 15;
	*ret_stands_in = reg || rm ? other : 0;
	if (m->memory) {
		rex &= ~3;
		modrm = (modrm & 0x38) | 5;
	}
	if (reg) {
		rex |= 0x44;
		modrm = (modrm & ~0x38) | (other & 7) << 3;
	}
	if (rm) {
		rex |= 0x41;
		modrm = (modrm & ~7) | (other & 7);
	}
	for (int i = 0; i < m->opcode_at - m->escaped; i++)
		if (m->code[i] == 0x66 || m->code[i] == 0xf0 || m->code[i] == 0xf2 || m->code[i] == 0xf3)
			ret[n++] = m->code[i];
	if (rex)
		ret[n++] = rex;
	if (m->escaped)
		ret[n++] = 0x0f;
	ret[n++] = m->opcode;
	uint8_t from = m->modrm_at, rest = m->length - (m->operand_end ? m->operand_end : from);
	if (m->operand_end)
		ret[n++] = modrm;
	if (m->memory) {
		int32_t distance = (int32_t)(gr_apart_native.operand - (place + n + 4 + rest));
		memcpy(ret + n, &distance, 4);
		n += 4;
	}
	memcpy(ret + n, m->code + m->length - rest, rest);
	n += rest;
	int32_t back = (int32_t)(gr_apart_back - (place + n + 5));
	ret[n++] = 0xe9;
	memcpy(ret + n, &back, 4);
	return n + 4;
}

static bool may_fault(const struct gr_meaning *m)
{
	uint32_t mxcsr;
	memcpy(&mxcsr, gr_apart_native.vectors + MXCSR, sizeof mxcsr);
	bool divides = !m->escaped && (m->opcode == 0xf6 || m->opcode == 0xf7) && (m->modrm & 0x30) == 0x30;
	return divides || gr_apart.greg[REG_EFL] & FLAG_ALIGNS || (m->vector && ~mxcsr & MXCSR_MASKED);
}

// INVARIANT(written-before-executed): gr_apart_run goes to the place by iret, behind which no processor executes what stood there.
static bool put(unsigned i, const uint8_t *code, uint8_t length)
{
	if (written[i].length == length && !memcmp(written[i].code, code, length))
		return true;
	if (text < 0)
		text = gr_text_open();
	if (!gr_text_put(text, (uint64_t)gr_apart_places[i], code, length, GR_TEXT))
		return false;
	memcpy(written[i].code, code, length);
	written[i].length = length;
	return true;
}

static enum gr_touched execute(const struct gr_meaning *m)
{
	unsigned i = gr_apart.greg[REG_RIP] % PLACES, stands_in;
	struct fields fields;
	uint8_t code[PLACE];
	uint64_t *greg = gr_apart_native.greg, kept = 0;
	bool odd = !m->escaped && m->opcode == 0x8d; // what by_hand leaves of lea
	if (odd || may_fault(m) || !fields_of(m, &fields))
		return GR_TOUCH_UNKNOWN;
	uint8_t length = rewrite(m, &fields, gr_apart_places[i], code, &stands_in);
	if (!put(i, code, length))
		return GR_TOUCH_UNKNOWN;
	memcpy(greg, gr_apart.greg, sizeof gr_apart_native.greg);
	if (stands_in) {
		kept = *gr_touch_register(greg, stands_in);
		*gr_touch_register(greg, stands_in) = greg[REG_RSP];
	}
	gr_apart_native.vector = m->vector;
	move(m->touch[0].addr, gr_apart_native.operand, m->touch[0].len, false);
	gr_apart_run(gr_apart_places[i], (gr_apart.greg[REG_EFL] & FLAGS) | 0x202);
	move(m->touch[0].addr, gr_apart_native.operand, m->touch[0].len, true);
	if (stands_in) {
		greg[REG_RSP] = *gr_touch_register(greg, stands_in);
		*gr_touch_register(greg, stands_in) = kept;
	}
	greg[REG_EFL] = (gr_apart.greg[REG_EFL] & ~FLAGS) | (greg[REG_EFL] & FLAGS);
	memcpy(gr_apart.greg, greg, sizeof gr_apart.greg);
	if (m->vector)
		memcpy(gr_apart.vectors, gr_apart_native.vectors, sizeof gr_apart.vectors);
	return GR_TOUCH_KNOWN;
}

// ---------------------------------------------------------------- steps
bool gr_apart_begin(const uint64_t *greg, const void *vectors)
{
	if (!vectors)
		return false;
	memcpy(gr_apart.greg, greg, sizeof gr_apart.greg);
	memcpy(gr_apart.vectors, vectors, sizeof gr_apart.vectors);
	memcpy(gr_apart_native.vectors, vectors, sizeof gr_apart_native.vectors);
	gr_apart.count = 0;
	return true;
}

enum gr_touched gr_apart_step(uint64_t fs_base)
{
	struct gr_meaning meaning;
	enum gr_touched known = gr_touch(gr_apart.greg, fs_base, &meaning);
	uint64_t next = gr_apart.greg[REG_RIP] + meaning.length;
	paused = false;
	if (known != GR_TOUCH_KNOWN)
		return known;
	if (!touch_all(meaning.touch))
		return GR_TOUCH_UNKNOWN;
	if (is_jump(&meaning))
		return jump(&meaning, next);
	if (!by_hand(&meaning) && execute(&meaning) != GR_TOUCH_KNOWN)
		return GR_TOUCH_UNKNOWN;
	gr_apart.greg[REG_RIP] = next;
	paused = meaning.length == 2 && meaning.code[0] == 0xf3 && meaning.code[1] == 0x90;
	return GR_TOUCH_KNOWN;
}

bool gr_apart_paused(void)
{
	return paused;
}

void gr_apart_end(void)
{
	if (text >= 0)
		gr_text_close(text);
	text = -1;
}
