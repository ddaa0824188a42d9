// The length decoder; see decode.h. Tables: one character an opcode.
// Runs in: application threads; host-side tests.
// May call: nothing.
// Owns: nothing.
#include "decode.h"

// What follows an opcode. ModRM: m none, i imm8, z imm16/32 by operand size. No ModRM: - none, b imm8, w imm16, Z imm16/32,
// V imm16/32/64, d always 32 bits, o an address, e imm16 and imm8. ! invalid, P prefix, X another table, G group f6/f7.
static const char one_byte[] =
	"mmmmbZ!!mmmmbZ!X" "mmmmbZ!!mmmmbZ!!" "mmmmbZP!mmmmbZP!" "mmmmbZP!mmmmbZP!" // 00-3f
	"PPPPPPPPPPPPPPPP" "----------------" "!!XmPPPPZzbi----" "bbbbbbbbbbbbbbbb" // 40-7f
	"iz!immmmmmmmmmmX" "----------!-----" "oooo----bZ------" "bbbbbbbbVVVVVVVV" // 80-bf
	"iiw-XXize-w--b!-" "mmmm!!!-mmmmmmmm" "bbbbbbbbdd!b----" "P-PP--GG------mm"; // c0-ff

static const char two_byte[] =
	"mmmm!---" "--!-!m-i" "mmmmmmmmmmmmmmmm" "cccc!!!!mmmmmmmm" "------!-" "X!X!!!!!" // 00-3f; c: ModRM without memory
	"mmmmmmmmmmmmmmmm" "mmmmmmmmmmmmmmmm" "mmmmmmmmmmmmmmmm" "iiiimmm-mm!!mmmm" // 40-7f
	"dddddddddddddddd" "mmmmmmmmmmmmmmmm" "---mimmm---mimmm" "mmmmmmmmmmimmmmm" // 80-bf
	"mmimiiim--------" "mmmmmmmmmmmmmmmm" "mmmmmmmmmmmmmmmm" "mmmmmmmmmmmmmmmm"; // c0-ff

_Static_assert(sizeof one_byte == 257 && sizeof two_byte == 257, "one character an opcode");

struct state {
	const uint8_t *p, *end, *disp;
	bool size16, address32, wide, repne;
};

// ModRM, SIB and displacement. Returns what kind of operand it is.
static bool operand(struct state *s, bool memory_too, uint8_t *ret_kind, uint8_t *ret_modrm)
{
	if (s->p >= s->end)
		return false;
	uint8_t modrm = *s->p++, mod = modrm >> 6, rm = modrm & 7;
	*ret_modrm = modrm;
	if (mod == 3 || !memory_too)
		return true;
	*ret_kind = GR_INSN_MEMORY;
	uint64_t displacement = mod == 1 ? 1 : mod == 2 ? 4 : 0;
	if (rm == 4) {
		if (s->p >= s->end)
			return false;
		if ((*s->p++ & 7) == 5 && mod == 0)
			displacement = 4;
	} else if (rm == 5 && mod == 0) {
		displacement = 4;
		*ret_kind = GR_INSN_RIP;
		s->disp = s->p;
	}
	s->p += displacement;
	return true;
}

// VEX, EVEX and XOP: a prefix of `bytes` bytes behind the first, which names the map.
static char vector_form(struct state *s, unsigned map, uint8_t opcode, bool xop)
{
	if (xop)
		return map == 8 ? 'i' : map == 9 ? 'm' : map == 10 ? 'z' : '!';
	if (map == 1)
		return two_byte[opcode] == 'd' ? '!' : two_byte[opcode];
	(void)s;
	return map == 2 || map == 5 || map == 6 ? 'm' : map == 3 ? 'i' : '!';
}

bool gr_decode(const uint8_t *code, uint64_t avail, struct gr_insn *ret)
{
	struct state s = {.p = code, .end = code + (avail < 15 ? avail : 15)};
	uint8_t opcode, modrm = 0, kind = GR_INSN_PLAIN;
	char form;
	bool escaped = false, vector = false;
	for (;; s.p++) {
		if (s.p >= s.end)
			return false;
		opcode = *s.p;
		if (one_byte[opcode] != 'P')
			break;
		if ((opcode & 0xf0) == 0x40) {
			s.wide = opcode & 8;
			continue;
		}
		s.wide = false; // REX counts only right in front of the opcode
		s.size16 |= opcode == 0x66;
		s.address32 |= opcode == 0x67;
		s.repne |= opcode == 0xf2;
		if (opcode == 0x64 || opcode == 0x65)
			kind = GR_INSN_MEMORY;
	}
	s.p++;
	form = one_byte[opcode];
	if (form == 'X') {
		uint64_t left = s.end - s.p;
		if (left < 3 && !(opcode == 0x0f && left >= 1) && !(opcode == 0x8f && left >= 1))
			return false;
		if (opcode == 0x0f) {
			escaped = true;
			opcode = *s.p++;
			form = two_byte[opcode];
			if (form == 'X') {
				form = opcode == 0x38 ? 'm' : 'i';
				s.p++;
			}
			if (opcode == 0x78 && (s.size16 || s.repne)) { // SSE4a: two bytes of constants
				if (s.end - s.p < 3)
					return false;
				s.p += 2;
			}
		} else if (opcode == 0xc5) {
			opcode = s.p[1];
			s.p += 2;
			form = vector_form(&s, 1, opcode, false);
			vector = true;
		} else if (opcode == 0xc4 || (opcode == 0x8f && (s.p[0] & 0x1f) >= 8)) {
			if (left < 3)
				return false;
			bool xop = opcode == 0x8f;
			unsigned map = s.p[0] & 0x1f;
			opcode = s.p[2];
			s.p += 3;
			form = vector_form(&s, map, opcode, xop);
			s.size16 = false;
			vector = true;
		} else if (opcode == 0x62) {
			if (left < 4)
				return false;
			unsigned map = s.p[0] & 7;
			opcode = s.p[3];
			s.p += 4;
			form = vector_form(&s, map, opcode, false);
			vector = true;
		} else {
			form = 'm'; // pop to memory
		}
	}
	uint64_t full = s.size16 ? 2 : 4;
	switch (form) {
	case 'm':
	case 'i':
	case 'z':
	case 'c':
	case 'G':
		if (!operand(&s, form != 'c', &kind, &modrm))
			return false;
		if (form == 'i')
			s.p++;
		else if (form == 'z')
			s.p += full;
		else if (form == 'G' && (modrm & 0x30) == 0)
			s.p += opcode == 0xf6 ? 1 : full;
		break;
	case '-':
		break;
	case 'b':
		s.p++;
		break;
	case 'w':
		s.p += 2;
		break;
	case 'e':
		s.p += 3;
		break;
	case 'Z':
		s.p += full;
		break;
	case 'V':
		s.p += s.wide ? 8 : full;
		break;
	case 'd':
		s.p += 4;
		break;
	case 'o':
		s.p += s.address32 ? 4 : 8;
		kind = GR_INSN_MEMORY;
		break;
	default:
		return false;
	}
	if (s.p > s.end)
		return false;
	*ret = (struct gr_insn){.length = (uint8_t)(s.p - code), .kind = kind, .disp = s.disp ? (uint8_t)(s.disp - code) : 0};
	if (vector)
		return true;
	int32_t rel32 = 0;
	if (s.p - code >= 5)
		__builtin_memcpy(&rel32, s.p - 4, 4);
	if (escaped) {
		if (opcode == 0x05)
			ret->kind = GR_INSN_SYSCALL;
		if (opcode == 0x01 || opcode == 0x0b || opcode == 0x31 || opcode == 0xa2 || opcode == 0xb9 || opcode == 0xff)
			ret->kind = GR_INSN_MEMORY; // may fault
		if ((opcode & 0xf0) == 0x80) {
			ret->kind = GR_INSN_JCC;
			ret->cc = opcode & 15;
			ret->rel = rel32;
		}
		return true;
	}
	if ((opcode & 0xf0) == 0x70 || opcode == 0xeb || (opcode & 0xfc) == 0xe0) {
		ret->kind = opcode == 0xeb ? GR_INSN_JMP : opcode >= 0xe0 ? GR_INSN_LOOP : GR_INSN_JCC;
		ret->cc = opcode & 15;
		ret->rel = (int8_t)s.p[-1];
	} else if (opcode == 0xe8 || opcode == 0xe9) {
		ret->kind = opcode == 0xe8 ? GR_INSN_CALL : GR_INSN_JMP;
		ret->rel = rel32;
	} else if (opcode == 0xff && (modrm & 0x38) >= 0x10 && (modrm & 0x38) <= 0x28) {
		ret->kind = (modrm & 0x38) <= 0x18 ? GR_INSN_CALL : GR_INSN_INDIRECT;
	} else if (opcode == 0xc3 || opcode == 0xc2 || opcode == 0xcb || opcode == 0xca || opcode == 0xcf) {
		ret->kind = GR_INSN_RET;
	} else if ((opcode & 0xfe) == 0xf6 && (modrm & 0x30) == 0x30) {
		ret->kind = GR_INSN_MEMORY; // div: may fault
	} else if (opcode == 0xcc || opcode == 0xcd || opcode == 0xf1 || opcode == 0xf4) {
		ret->kind = GR_INSN_INT3;
	} else if ((opcode >= 0x50 && opcode < 0x60) || opcode == 0x68 || opcode == 0x6a || (opcode >= 0x6c && opcode < 0x70) ||
		   (opcode >= 0xa4 && opcode < 0xa8) || (opcode >= 0xaa && opcode < 0xb0) || opcode == 0xc8 || opcode == 0xc9 ||
		   opcode == 0xd7 || opcode == 0x9c || opcode == 0x9d) {
		ret->kind = GR_INSN_MEMORY; // the stack, or what rsi and rdi point to
	}
	return true;
}
