// What an instruction means; see touch.h.
// Runs in: the engine's handlers, on their stack; a test.
// May call: core's copies, patch's decoder.
// Owns: nothing.
#include "touch.h"

#include <ucontext.h>

#include "../../core/copy.h"
#include "../../core/nolibc.h"
#include "../../patch/decode.h"

// By opcode. `-` touches nothing, `m` its ModRM operand, `n` has one and touches nothing, `p` pushes, `o` pops,
// `e` leave, `G` the group ff, `X` another table, `P` a prefix, `.` not known here.
static const char one_byte[] =
	"mmmm--..mmmm--.X" "mmmm--..mmmm--.." "mmmm--P.mmmm--P." "mmmm--P.mmmm--P." // 00-3f
	"PPPPPPPPPPPPPPPP" "ppppppppoooooooo" "...mP.P.pmpm...." "----------------" // 40-7f
	"mm.mmmmmmmmm.n.." "----------.." "..--" "........" "--......" "----------------" // 80-bf
	"mmoo..mm.e......" "mmmm............" "----....p-.-...." "P.PP.-mm--..--mG"; // c0-ff

static const char two_byte[] =
	"........" ".....n.." "mmmmmmmmnnnnnnnn" "........mmmmmmmm" ".C.............." // 00-3f
	"mmmmmmmmmmmmmmmm" "mmmmmmmmmmmmmmmm" "mmmmmmmmmmmmmmmm" "mmmmmmm.....mmmm" // 40-7f
	"----------------" "mmmmmmmmmmmmmmmm" "....mm....." ".mmFm" "mm....mm" "..mmmmmm" // 80-bf
	"mmmmmmmX--------" ".mmmmmmmmmmmmmmm" "mmmmmmmmmmmmmmmm" ".mmmmmm.mmmmmmm."; // c0-ff

_Static_assert(sizeof one_byte == 257 && sizeof two_byte == 257, "one character an opcode");

// The number of a register in an instruction, in the kernel's order.
uint64_t *gr_touch_register(uint64_t *greg, unsigned number)
{
	static const uint8_t order[] = {
		REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
		REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15,
	};
	return &greg[order[number & 15]];
}

static uint64_t reg(const uint64_t *greg, unsigned number)
{
	return *gr_touch_register((uint64_t *)greg, number);
}

// The address of a ModRM operand, and where it ends.
static void find_operand(const uint64_t *greg, uint64_t fs_base, struct gr_meaning *m)
{
	const uint8_t *p = m->code + m->modrm_at + 1;
	uint8_t mod = m->modrm >> 6, rm = m->modrm & 7;
	int32_t displacement = 0;
	uint64_t base = 0;
	m->memory = mod != 3;
	if (m->memory && rm == 4) {
		uint8_t sib = *p++;
		unsigned index = (sib >> 3 & 7) | (m->rex & 2) << 2;
		if (index != 4)
			base += reg(greg, index) << (sib >> 6);
		if ((sib & 7) == 5 && mod == 0)
			mod = 2;
		else
			base += reg(greg, (sib & 7) | (m->rex & 1) << 3);
	} else if (m->memory && rm == 5 && mod == 0) {
		base = greg[REG_RIP] + m->length;
		mod = 2;
	} else if (m->memory) {
		base += reg(greg, rm | (m->rex & 1) << 3);
	}
	if (mod == 1)
		displacement = (int8_t)*p++;
	if (mod == 2) {
		memcpy(&displacement, p, 4);
		p += 4;
	}
	m->operand_end = (uint8_t)(p - m->code);
	m->address = base + (uint64_t)(int64_t)displacement + (m->fs ? fs_base : 0);
}

// Prefixes and opcode; its form.
static char begin(struct gr_meaning *m)
{
	uint8_t at = 0;
	for (; one_byte[m->code[at]] == 'P'; at++) {
		uint8_t prefix = m->code[at];
		if (at > GR_TOUCH_LONGEST - 2)
			return '.';
		m->rex = (prefix & 0xf0) == 0x40 ? prefix : 0; // counts only right in front of the opcode
		m->size16 |= prefix == 0x66;
		m->fs |= prefix == 0x64;
	}
	m->escaped = one_byte[m->code[at]] == 'X';
	m->opcode_at = at + m->escaped;
	m->opcode = m->code[m->opcode_at];
	m->modrm_at = m->opcode_at + 1;
	m->vector = m->escaped && (m->opcode < 0x40 || (m->opcode >= 0x50 && m->opcode < 0x80) || m->opcode >= 0xc2);
	return m->escaped ? two_byte[m->opcode] : one_byte[m->opcode];
}

enum gr_touched gr_touch(const uint64_t *greg, uint64_t fs_base, struct gr_meaning *ret)
{
	struct gr_insn insn;
	uint64_t rsp = greg[REG_RSP];
	memset(ret, 0, sizeof *ret);
	uint64_t there = gr_peek(ret->code, greg[REG_RIP], GR_TOUCH_LONGEST);
	if (!gr_decode(ret->code, there, &insn))
		return GR_TOUCH_UNKNOWN;
	ret->length = insn.length;
	ret->kind = insn.kind;
	ret->rel = insn.rel;
	char form = begin(ret);
	if (!ret->escaped && ret->size16 && ret->rex & 8) // constants have the length of neither
		return GR_TOUCH_UNKNOWN;
	uint8_t modrm = ret->code[ret->modrm_at], part = modrm >> 3 & 7;
	uint64_t len = ret->vector ? 16 : ret->rex & 8 ? 8 : ret->size16 ? 2 : 4;
	if (ret->escaped && ret->opcode == 0x01 && modrm == 0xf9) // rdtscp
		return GR_TOUCH_COUNTER;
	switch (form) {
	case 'C':
		return GR_TOUCH_COUNTER;
	case 'X': // cmpxchg8b and cmpxchg16b; rdrand and its kin stand beside them
		if (modrm >> 6 == 3 || part != 1)
			return GR_TOUCH_UNKNOWN;
		form = 'm';
		break;
	case 'F': // fences; what else is there saves and loads state
		return modrm >> 6 != 3 || part < 5 ? GR_TOUCH_UNKNOWN : GR_TOUCH_KNOWN;
	case 'G':
		if (part == 3 || part == 5 || part == 7 || (ret->size16 && part >= 2))
			return GR_TOUCH_UNKNOWN;
		if (part == 2 || part == 6)
			ret->touch[1] = (struct gr_touch){rsp - 8, 8};
		len = part >= 2 ? 8 : len;
		form = 'm';
		break;
	}
	switch (form) {
	case '-':
		return GR_TOUCH_KNOWN;
	case 'p':
		ret->touch[0] = (struct gr_touch){rsp - 8, 8};
		return ret->size16 ? GR_TOUCH_UNKNOWN : GR_TOUCH_KNOWN;
	case 'o':
		ret->touch[0] = (struct gr_touch){rsp, 8};
		return ret->size16 ? GR_TOUCH_UNKNOWN : GR_TOUCH_KNOWN;
	case 'e':
		ret->touch[0] = (struct gr_touch){greg[REG_RBP], 8};
		return ret->size16 ? GR_TOUCH_UNKNOWN : GR_TOUCH_KNOWN;
	case 'm':
	case 'n':
		break;
	default:
		return GR_TOUCH_UNKNOWN;
	}
	// bt and its kin with a register name a bit that may stand far away.
	if (ret->escaped && (ret->opcode & 0xe7) == 0xa3 && modrm >> 6 != 3)
		return GR_TOUCH_UNKNOWN;
	ret->modrm = modrm;
	find_operand(greg, fs_base, ret);
	if (ret->operand_end > ret->length)
		return GR_TOUCH_UNKNOWN;
	if (ret->memory && form == 'm')
		ret->touch[0] = (struct gr_touch){ret->address, len};
	return GR_TOUCH_KNOWN;
}
