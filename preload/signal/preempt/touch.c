// What an instruction touches; see preempt.h. Only integer instructions and plain SSE ones are known: loops that wait are made of them.
// Runs in: the engine's handlers, on their stack.
// May call: core.
// Owns: nothing.
#include "preempt.h"

#include <ucontext.h>

#include "../../core/copy.h"

#define LONGEST 15

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
static uint64_t reg(const struct gr_context *at, unsigned number)
{
	static const uint8_t order[] = {
		REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
		REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15,
	};
	return at->greg[order[number & 15]];
}

struct insn {
	const uint8_t *p;
	uint8_t opcode, rex;
	bool escaped, fs;
};

// Bytes of constants behind the operand, which an address relative to rip counts from.
static uint64_t immediate_of(const struct insn *insn, uint8_t modrm, bool size16)
{
	uint8_t op = insn->opcode;
	uint64_t full = size16 ? 2 : 4;
	if (insn->escaped)
		return op == 0x70 || op == 0x71 || op == 0x72 || op == 0x73 || op == 0xa4 || op == 0xac || op == 0xba || op == 0xc2 ||
		       op == 0xc4 || op == 0xc5 || op == 0xc6;
	if (op == 0x69 || op == 0x81 || op == 0xc7)
		return full;
	if (op == 0x6b || op == 0x80 || op == 0x83 || op == 0xc0 || op == 0xc1 || op == 0xc6)
		return 1;
	if (op == 0xf6 || op == 0xf7)
		return modrm & 0x30 ? 0 : op == 0xf6 ? 1 : full;
	return 0;
}

// The address of a ModRM operand. False if it is a register.
static bool address_of(const struct gr_thread *self, const struct gr_context *at, const struct insn *insn, bool size16, uint64_t *ret)
{
	const uint8_t *p = insn->p;
	uint8_t modrm = *p++, mod = modrm >> 6, rm = modrm & 7;
	int32_t displacement = 0;
	uint64_t base = 0;
	bool relative = false;
	if (mod == 3)
		return false;
	if (rm == 4) {
		uint8_t sib = *p++;
		unsigned index = (sib >> 3 & 7) | (insn->rex & 2) << 2;
		if (index != 4)
			base += reg(at, index) << (sib >> 6);
		if ((sib & 7) == 5 && mod == 0)
			mod = 2;
		else
			base += reg(at, (sib & 7) | (insn->rex & 1) << 3);
	} else if (rm == 5 && mod == 0) {
		relative = true;
		mod = 2;
	} else {
		base += reg(at, rm | (insn->rex & 1) << 3);
	}
	if (mod == 1)
		displacement = (int8_t)*p++;
	if (mod == 2) {
		__builtin_memcpy(&displacement, p, 4);
		p += 4;
	}
	if (relative)
		base = at->greg[REG_RIP] + (uint64_t)(p - insn->p) + immediate_of(insn, modrm, size16);
	*ret = base + (uint64_t)(int64_t)displacement + (insn->fs ? self->fs_base : 0);
	return true;
}

enum gr_touched gr_touch(const struct gr_thread *self, const struct gr_context *at, struct gr_touch ret[GR_TOUCHES])
{
	uint8_t code[LONGEST + 16] = {0};
	struct insn insn = {.p = code};
	uint64_t addr, rsp = at->greg[REG_RSP];
	bool size16 = false;
	if (!gr_peek(code, at->greg[REG_RIP], LONGEST))
		return GR_TOUCH_UNKNOWN;
	ret[0] = ret[1] = (struct gr_touch){0, 0};
	for (;; insn.p++) {
		insn.opcode = *insn.p;
		if (one_byte[insn.opcode] != 'P')
			break;
		if (insn.p - code > LONGEST - 2)
			return GR_TOUCH_UNKNOWN;
		insn.rex = (insn.opcode & 0xf0) == 0x40 ? insn.opcode : 0; // counts only right in front of the opcode
		size16 |= insn.opcode == 0x66;
		insn.fs |= insn.opcode == 0x64;
	}
	char form = one_byte[insn.opcode];
	insn.p++;
	if (form == 'X') {
		insn.escaped = true;
		insn.opcode = *insn.p++;
		form = two_byte[insn.opcode];
	}
	uint8_t modrm = *insn.p, part = modrm >> 3 & 7;
	bool vector = insn.escaped && (insn.opcode < 0x40 || (insn.opcode >= 0x50 && insn.opcode < 0x80) || insn.opcode >= 0xc2);
	uint64_t len = vector ? 16 : insn.rex & 8 ? 8 : size16 ? 2 : 4;
	if (insn.escaped && insn.opcode == 0x01 && modrm == 0xf9) // rdtscp
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
		if (modrm >> 6 != 3 || part < 5)
			return GR_TOUCH_UNKNOWN;
		return GR_TOUCH_KNOWN;
	case 'G':
		if (part == 3 || part == 5 || part == 7)
			return GR_TOUCH_UNKNOWN;
		if (part == 2 || part == 6)
			ret[1] = (struct gr_touch){rsp - 8, 8};
		len = part >= 2 ? 8 : len;
		form = 'm';
		break;
	}
	switch (form) {
	case '-':
	case 'n':
		return GR_TOUCH_KNOWN;
	case 'p':
		ret[0] = (struct gr_touch){rsp - 8, 8};
		return size16 ? GR_TOUCH_UNKNOWN : GR_TOUCH_KNOWN;
	case 'o':
		ret[0] = (struct gr_touch){rsp, 8};
		return size16 ? GR_TOUCH_UNKNOWN : GR_TOUCH_KNOWN;
	case 'e':
		ret[0] = (struct gr_touch){at->greg[REG_RBP], 8};
		return size16 ? GR_TOUCH_UNKNOWN : GR_TOUCH_KNOWN;
	case 'm':
		break;
	default:
		return GR_TOUCH_UNKNOWN;
	}
	// bt and its kin with a register name a bit that may stand far away.
	if (insn.escaped && (insn.opcode & 0xe7) == 0xa3 && modrm >> 6 != 3)
		return GR_TOUCH_UNKNOWN;
	const uint8_t *start = insn.p;
	if (address_of(self, at, &insn, size16, &addr)) {
		if ((modrm & 0xc7) == 5) // counted from ModRM so far
			addr += (uint64_t)(start - code);
		ret[0] = (struct gr_touch){addr, len};
	}
	return GR_TOUCH_KNOWN;
}
