// What an instruction does with the arithmetic flags; see flags.h.
// Runs in: application threads; host-side tests.
// May call: nothing.
// Owns: nothing.
#include "flags.h"

#include <stdbool.h>

// One character an opcode: k keeps, s sets, a letter for groups, . anything else. What leaves a flag undefined is not among those
// that set: on some processors it keeps what it was. (The logical operations clear AF on all that are known.)
static const char one_byte[] =
	"ssssss..ssssss.." "................" "ssssss..ssssss.." "ssssss..ssssss.." // 00-3f
	"................" "kkkkkkkkkkkkkkkk" "...k....k.k....." "................" // 40-7f
	"12.1sskkkkkkkkk." "kkkkkkkkkk......" "kkkkkk..sskkkk.." "kkkkkkkkkkkkkkkk" // 80-bf
	"......kk.k......" "................" "................" "......33........";  // c0-ff
static const char two_byte[] =
	"................" "kkkkkkkkkkkkkkkk" "........kkkkkkss" "................" // 00-3f
	"................" "kkkkkkkkkkkkkkkk" "kkkkkkkkkkkkkkkk" "kkkkkkk.......kk" // 40-7f
	"................" "................" "................" "......kk......kk" // 80-bf
	"..kkkkk.kkkkkkkk" "kkkkkkkkkkkkkkkk" "kkkkkkkkkkkkkkkk" "kkkkkkkkkkkkkkk."; // c0-ff

_Static_assert(sizeof one_byte == 257 && sizeof two_byte == 257, "one character an opcode");

static bool is_prefix(uint8_t byte)
{
	return (byte & 0xf0) == 0x40 || byte == 0x66 || byte == 0x67 || byte == 0xf2 || byte == 0xf3 || byte == 0x2e || byte == 0x36 ||
	       byte == 0x3e || byte == 0x26 || byte == 0x64 || byte == 0x65;
}

static enum gr_flags of(char what)
{
	return what == 'k' ? GR_FLAGS_KEPT : what == 's' ? GR_FLAGS_SET : GR_FLAGS_MIXED;
}

// VEX and EVEX: what works on vectors keeps the flags, but for comparisons; the other maps have instructions on general registers.
static enum gr_flags of_vectors(unsigned map, uint8_t opcode, bool evex)
{
	if (map != 1)
		return evex ? GR_FLAGS_KEPT : GR_FLAGS_MIXED;
	if (opcode == 0x2e || opcode == 0x2f)
		return GR_FLAGS_SET;
	return opcode == 0x98 || opcode == 0x99 ? GR_FLAGS_MIXED : GR_FLAGS_KEPT;
}

enum gr_flags gr_flags_of(const uint8_t *code)
{
	while (is_prefix(*code))
		code++;
	unsigned reg = code[1] >> 3 & 7; // of ModRM
	if (*code == 0x0f)
		return of(two_byte[code[1]]);
	if (*code == 0xc5)
		return of_vectors(1, code[2], false);
	if (*code == 0xc4)
		return of_vectors(code[1] & 0x1f, code[3], false);
	if (*code == 0x62)
		return of_vectors(code[1] & 7, code[4], true);
	switch (one_byte[*code]) {
	case '1': // add or adc sbb and sub xor cmp with a constant
	case '2':
		return reg == 2 || reg == 3 ? GR_FLAGS_MIXED : GR_FLAGS_SET;
	case '3': // test test not neg ...
		return reg <= 1 || reg == 3 ? GR_FLAGS_SET : reg == 2 ? GR_FLAGS_KEPT : GR_FLAGS_MIXED;
	default:
		return of(one_byte[*code]);
	}
}
