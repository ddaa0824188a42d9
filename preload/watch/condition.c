// Conditions; see condition.h. A stack machine as GDB's manual describes it ("The GDB Agent Expression Mechanism").
// Runs in: the SIGTRAP handler of a worker, in whatever the hit interrupted.
// May call: core.
// Owns: nothing.
#include "condition.h"

#include "../core/copy.h"
#include "../core/thread.h"

#define DEPTH 64
#define STEPS 10000 // a loop longer than that is not a condition

// Numbers of GDB's manual.
enum {
	ADD = 0x02, SUB, MUL, DIV_SIGNED, DIV_UNSIGNED, REM_SIGNED, REM_UNSIGNED, LSH, RSH_SIGNED, RSH_UNSIGNED,
	LOG_NOT = 0x0e, BIT_AND, BIT_OR, BIT_XOR, BIT_NOT, EQUAL, LESS_SIGNED, LESS_UNSIGNED, EXT, REF8, REF16, REF32, REF64,
	IF_GOTO = 0x20, GOTO, CONST8, CONST16, CONST32, CONST64, REG, END, DUP, POP, ZERO_EXT, SWAP,
	PICK = 0x32, ROT,
};

// Bytes behind the operation; big-endian, as all of the code.
static unsigned operand_bytes(uint8_t op)
{
	switch (op) {
	case EXT: case ZERO_EXT: case PICK: case CONST8:
		return 1;
	case IF_GOTO: case GOTO: case REG: case CONST16:
		return 2;
	case CONST32:
		return 4;
	case CONST64:
		return 8;
	}
	return 0;
}

// How many values it takes from the stack.
static unsigned taken(uint8_t op)
{
	switch (op) {
	case ADD: case SUB: case MUL: case DIV_SIGNED: case DIV_UNSIGNED: case REM_SIGNED: case REM_UNSIGNED:
	case LSH: case RSH_SIGNED: case RSH_UNSIGNED: case BIT_AND: case BIT_OR: case BIT_XOR: case EQUAL: case LESS_SIGNED:
	case LESS_UNSIGNED: case SWAP:
		return 2;
	case ROT:
		return 3;
	case LOG_NOT: case BIT_NOT: case EXT: case ZERO_EXT: case REF8: case REF16: case REF32: case REF64: case IF_GOTO: case END:
	case DUP: case POP:
		return 1;
	}
	return 0;
}

static bool calculate(uint8_t op, uint64_t a, uint64_t b, uint64_t *ret)
{
	int64_t sa = a, sb = b;
	bool overflows = sa == INT64_MIN && sb == -1;
	if (op >= DIV_SIGNED && op <= REM_UNSIGNED && (!b || (overflows && (op == DIV_SIGNED || op == REM_SIGNED))))
		return false;
	switch (op) {
	case ADD: *ret = a + b; break;
	case SUB: *ret = a - b; break;
	case MUL: *ret = a * b; break;
	case DIV_SIGNED: *ret = sa / sb; break;
	case DIV_UNSIGNED: *ret = a / b; break;
	case REM_SIGNED: *ret = sa % sb; break;
	case REM_UNSIGNED: *ret = a % b; break;
	case LSH: *ret = b < 64 ? a << b : 0; break;
	case RSH_SIGNED: *ret = sa >> (b < 64 ? b : 63); break;
	case RSH_UNSIGNED: *ret = b < 64 ? a >> b : 0; break;
	case BIT_AND: *ret = a & b; break;
	case BIT_OR: *ret = a | b; break;
	case BIT_XOR: *ret = a ^ b; break;
	case EQUAL: *ret = a == b; break;
	case LESS_SIGNED: *ret = sa < sb; break;
	case LESS_UNSIGNED: *ret = a < b; break;
	default: return false;
	}
	return true;
}

static uint64_t extended(uint64_t value, uint64_t bits, bool sign)
{
	if (bits == 0 || bits >= 64)
		return value;
	uint64_t low = value & ((1ULL << bits) - 1);
	return sign && low >> (bits - 1) & 1 ? low | ~0ULL << bits : low;
}

// Numbers as in the `g` packet: sixteen general ones, rip, eflags.
static bool reg_at(const struct gr_regs *regs, uint64_t number, uint64_t *ret)
{
	if (number > 17)
		return false;
	*ret = (&regs->rax)[number];
	return true;
}

static bool loaded(uint64_t addr, size_t n, uint64_t *ret)
{
	*ret = 0;
	return gr_peek(ret, addr, n) == n;
}

bool gr_condition_met(const uint8_t *code, size_t len, const struct gr_regs *regs)
{
	uint64_t stack[DEPTH], top;
	size_t at = 0, depth = 0;
	for (unsigned step = 0; step < STEPS && at < len; step++) {
		uint8_t op = code[at++];
		unsigned bytes = operand_bytes(op);
		uint64_t operand = 0;
		if (bytes > len - at || taken(op) > depth || depth >= DEPTH - 1)
			return true;
		for (; bytes; bytes--)
			operand = operand << 8 | code[at++];
		uint64_t *last = depth ? &stack[depth - 1] : stack;
		switch (op) {
		case END:
			return *last != 0;
		case GOTO:
			at = operand;
			break;
		case IF_GOTO:
			depth--;
			at = *last ? operand : at;
			break;
		case CONST8: case CONST16: case CONST32: case CONST64:
			stack[depth++] = operand;
			break;
		case REG:
			if (!reg_at(regs, operand, &stack[depth++]))
				return true;
			break;
		case DUP:
			stack[depth++] = *last;
			break;
		case POP:
			depth--;
			break;
		case PICK:
			if (operand >= depth)
				return true;
			stack[depth] = stack[depth - 1 - operand];
			depth++;
			break;
		case SWAP:
			top = last[0];
			last[0] = last[-1];
			last[-1] = top;
			break;
		case ROT: // a b c -> c a b
			top = last[0];
			last[0] = last[-1];
			last[-1] = last[-2];
			last[-2] = top;
			break;
		case LOG_NOT:
			*last = !*last;
			break;
		case BIT_NOT:
			*last = ~*last;
			break;
		case EXT: case ZERO_EXT:
			*last = extended(*last, operand, op == EXT);
			break;
		case REF8: case REF16: case REF32: case REF64:
			if (!loaded(*last, 1U << (op - REF8), last))
				return true;
			break;
		default:
			if (taken(op) != 2)
				return true;
			depth--;
			if (!calculate(op, last[-1], last[0], &last[-1]))
				return true;
		}
	}
	return true;
}

// ---------------------------------------------------------------- registers
// INVARIANT(ids-do-not-count): libc keeps the kernel's id of a thread in its descriptor and loads it now and then; that
// id is another one in every copy. The controller names it as the recording does.
static bool is_recorded_id(uint64_t want, uint64_t have)
{
	return have <= UINT32_MAX && want <= UINT32_MAX && gr_thread_may_be((uint32_t)have, (uint32_t)want);
}

// INVARIANT(no-id-by-chance): a counter may have the value of such an id, so what a register may mean is no more than a second chance.
bool gr_same_registers(const struct gr_regs *want, const struct gr_regs *meant, const greg_t *have)
{
#define REGISTER(name, NAME) {want->name, meant->name, have[REG_##NAME]}
	const uint64_t registers[][3] = {
		REGISTER(rax, RAX), REGISTER(rbx, RBX), REGISTER(rcx, RCX), REGISTER(rdx, RDX),
		REGISTER(rsi, RSI), REGISTER(rdi, RDI), REGISTER(rbp, RBP), REGISTER(rsp, RSP),
		REGISTER(r8, R8),   REGISTER(r9, R9),   REGISTER(r10, R10), REGISTER(r11, R11),
		REGISTER(r12, R12), REGISTER(r13, R13), REGISTER(r14, R14), REGISTER(r15, R15),
	};
	for (unsigned i = 0; i < sizeof registers / sizeof *registers; i++)
		if (registers[i][0] != registers[i][2] && !is_recorded_id(registers[i][1], registers[i][2]))
			return false;
	return true;
}
