// Writing blocks; see blocks.h. A copy is what the program has, instruction for instruction, but for addresses relative to rip and
// for where it ends. Neither flags nor the stack below its pointer may be other than the program would have them.
// Runs in: a copy of a replay, in the thread whose segment is counted.
// May call: core, patch/decode.
// Owns: nothing.
#include <stddef.h>

#include "../core/nolibc.h"
#include "../patch/decode.h"
#include "blocks.h"
#include "flags.h"

struct out {
	uint8_t *p;
	struct gr_area *area;
	bool failed;
	struct { uint8_t *site; uint64_t target; } exit[2];
	unsigned exits;
};

static void put(struct out *o, const void *bytes, unsigned n)
{
	memcpy(o->p, bytes, n);
	o->p += n;
}
#define BYTES(o, ...) put(o, (const uint8_t[]){__VA_ARGS__}, sizeof (const uint8_t[]){__VA_ARGS__})

static void put4(struct out *o, uint32_t value)
{
	put(o, &value, 4);
}

static void put8(struct out *o, uint64_t value)
{
	put(o, &value, 8);
}

// A distance from behind what follows it, of MORE bytes.
static void relative(struct out *o, uint64_t to, unsigned more)
{
	int64_t distance = (int64_t)(to - ((uint64_t)o->p + 4 + more));
	if (distance != (int32_t)distance)
		o->failed = true;
	put4(o, (uint32_t)distance);
}

#define OF(o, field) ((uint64_t)(o)->area + offsetof(struct gr_area, field))
#define RAX 0x05
#define RCX 0x0d
#define RDX 0x15

static void store(struct out *o, uint8_t reg, uint64_t to)
{
	BYTES(o, 0x48, 0x89, reg);
	relative(o, to, 0);
}

static void load(struct out *o, uint8_t reg, uint64_t from)
{
	BYTES(o, 0x48, 0x8b, reg);
	relative(o, from, 0);
}

static void store_constant(struct out *o, uint64_t to, uint64_t value)
{
	for (unsigned half = 0; half < 2; half++) {
		BYTES(o, 0xc7, 0x05); // movl
		relative(o, to + 4 * half, 4);
		put4(o, (uint32_t)(value >> 32 * half));
	}
}

static void jump_to(struct out *o, uint64_t to)
{
	BYTES(o, 0xe9);
	relative(o, to, 0);
}

// Leaves the copies: the engine decides how it goes on.
static void leave(struct out *o, uint64_t target, uint64_t reason)
{
	store_constant(o, OF(o, target), target);
	store_constant(o, OF(o, reason), reason);
	jump_to(o, o->area->to_glue);
}

// ---------------------------------------------------------------- counting
// With flags and registers as they are, for some 2 ns.
static void count_apart(struct out *o, uint64_t *count, bool saved)
{
	if (!saved)
		store(o, RAX, OF(o, rax));
	load(o, RAX, (uint64_t)count);
	BYTES(o, 0x48, 0x8d, 0x40, 1); // lea 1(%rax), %rax
	store(o, RAX, (uint64_t)count);
	if (!saved)
		load(o, RAX, OF(o, rax));
}

static void count_here(struct out *o, uint64_t *count)
{
	BYTES(o, 0x48, 0x83, 0x05); // addq $1
	relative(o, (uint64_t)count, 1);
	BYTES(o, 1);
}

// Once so many executions are left that this is the last but none, it stops in front of it.
static void count_down(struct out *o, unsigned point, uint64_t pc)
{
	store(o, RCX, OF(o, rcx));
	load(o, RCX, OF(o, left[point]));
	BYTES(o, 0x48, 0x8d, 0x49, 0xff); // lea -1(%rcx), %rcx
	store(o, RCX, OF(o, left[point]));
	BYTES(o, 0xe3, 2, 0xeb, 0); // jrcxz over the jump
	uint8_t *over = o->p;
	load(o, RCX, OF(o, rcx));
	leave(o, pc, GR_EXIT_STOP | point << GR_EXIT_BITS);
	over[-1] = (uint8_t)(o->p - over);
	load(o, RCX, OF(o, rcx));
}

// In front of a block that has more instructions than are left.
static void flags_back(struct out *o)
{
	load(o, RAX, OF(o, flags));
	BYTES(o, 0x04, 0x7f, 0x9e); // add $0x7f, %al: OF as it was; sahf: the others
	load(o, RAX, OF(o, rax));
}

static void count_instructions(struct out *o, uint64_t *left, unsigned insns, uint64_t pc)
{
	store(o, RAX, OF(o, rax));
	BYTES(o, 0x9f, 0x0f, 0x90, 0xc0); // lahf; seto %al
	store(o, RAX, OF(o, flags));
	BYTES(o, 0x48, 0xa1); // movabs, %rax
	put8(o, (uint64_t)left);
	BYTES(o, 0x48, 0x2d); // sub $, %rax
	put4(o, insns);
	BYTES(o, 0x0f, 0x88, 0, 0, 0, 0); // js
	uint8_t *less = o->p;
	BYTES(o, 0x48, 0xa3); // movabs %rax,
	put8(o, (uint64_t)left);
	flags_back(o);
	BYTES(o, 0xe9, 0, 0, 0, 0);
	uint8_t *enough = o->p;
	*(int32_t *)(less - 4) = (int32_t)(o->p - less);
	flags_back(o);
	leave(o, pc, GR_EXIT_STOP | GR_WATCHES << GR_EXIT_BITS);
	*(int32_t *)(enough - 4) = (int32_t)(o->p - enough);
}

// ---------------------------------------------------------------- ends
static void exit_to(struct out *o, const struct gr_emit *emit, const uint8_t *opcode, unsigned n, uint64_t target)
{
	put(o, opcode, n);
	uint64_t code = emit->linked(o->area, target);
	if (code) {
		relative(o, code, 0);
		return;
	}
	o->exit[o->exits].site = o->p;
	o->exit[o->exits++].target = target;
	put4(o, 0);
}

static void exits_apart(struct out *o)
{
	for (unsigned i = 0; i < o->exits; i++) {
		uint8_t *site = o->exit[i].site;
		*(int32_t *)site = (int32_t)(o->p - (site + 4));
		leave(o, o->exit[i].target, GR_EXIT_LINK | ((uint64_t)site - (uint64_t)o->area) << GR_EXIT_BITS);
	}
}

// The program goes on where rax says; its own rax is in the area.
static void go_by_table(struct out *o, struct gr_fast *fast)
{
	store(o, RCX, OF(o, rcx));
	store(o, RDX, OF(o, rdx));
	BYTES(o, 0x48, 0xba); // movabs
	put8(o, (uint64_t)fast);
	BYTES(o, 0x0f, 0xb7, 0xc8);       // movzwl %ax, %ecx
	BYTES(o, 0x48, 0x8d, 0x14, 0xca); // lea (%rdx,%rcx,8), %rdx, twice
	BYTES(o, 0x48, 0x8d, 0x14, 0xca);
	BYTES(o, 0x48, 0x8b, 0x0a);       // mov (%rdx), %rcx
	BYTES(o, 0x48, 0x8d, 0x0c, 0x01); // lea (%rcx,%rax), %rcx
	BYTES(o, 0xe3, 5, 0xe9, 0, 0, 0, 0); // jrcxz over the jump
	uint8_t *found = o->p;
	BYTES(o, 0x48, 0x8b, 0x42, 0x08); // mov 8(%rdx), %rax
	store(o, RAX, OF(o, jump));
	load(o, RDX, OF(o, rdx));
	load(o, RCX, OF(o, rcx));
	load(o, RAX, OF(o, rax));
	BYTES(o, 0xff, 0x25);
	relative(o, OF(o, jump), 0);
	*(int32_t *)(found - 4) = (int32_t)(o->p - found);
	store(o, RAX, OF(o, target));
	store_constant(o, OF(o, reason), GR_EXIT_INDIRECT);
	load(o, RDX, OF(o, rdx));
	load(o, RCX, OF(o, rcx));
	load(o, RAX, OF(o, rax));
	jump_to(o, o->area->to_glue);
}

// As the instruction, whose operand is of the form that ff /2 and /4 have, but for its opcode: mov operand, %rax.
static void load_operand(struct out *o, const uint8_t *code, const struct gr_insn *insn, uint64_t pc)
{
	uint8_t rex = 0x48;
	const uint8_t *p = code;
	for (; *p != 0xff; p++) {
		if ((*p & 0xf0) == 0x40)
			rex |= *p & 3;
		else if (*p == 0x64 || *p == 0x65 || *p == 0x67)
			BYTES(o, *p);
	}
	unsigned rest = (unsigned)(code + insn->length - p) - 2;
	BYTES(o, rex, 0x8b, (uint8_t)(p[1] & 0xc7));
	if (insn->disp) {
		int32_t distance;
		memcpy(&distance, code + insn->disp, 4);
		relative(o, pc + insn->length + (int64_t)distance, 0);
	} else {
		put(o, p + 2, rest);
	}
}

static void push_return(struct out *o, uint64_t back)
{
	BYTES(o, 0x48, 0xb8); // movabs, %rax; push %rax: one store, as the call makes it
	put8(o, back);
	BYTES(o, 0x50);
}

static const uint8_t *opcode_of(const uint8_t *code)
{
	while ((*code & 0xf0) == 0x40 || *code == 0x66 || *code == 0x67 || *code == 0xf2 || *code == 0xf3 || *code == 0x2e || *code == 0x36 ||
	       *code == 0x3e || *code == 0x26 || *code == 0x64 || *code == 0x65)
		code++;
	return code;
}

// The last instruction of a block. UNCOUNTED: its execution is to be counted here, for which some of them have a register to spare.
static void ending(struct out *o, const struct gr_emit *emit, const struct gr_insn *insn, struct gr_block *block, uint64_t pc, bool uncounted)
{
	const uint8_t *code = (const uint8_t *)pc, *op = opcode_of(code);
	uint64_t next = pc + insn->length, target = next + (int64_t)insn->rel;
	switch (insn->kind) {
	case GR_INSN_JMP:
		exit_to(o, emit, (const uint8_t[]){0xe9}, 1, target);
		break;
	case GR_INSN_JCC:
		exit_to(o, emit, (const uint8_t[]){0x0f, 0x80 | insn->cc}, 2, target);
		exit_to(o, emit, (const uint8_t[]){0xe9}, 1, next);
		break;
	case GR_INSN_LOOP:
		put(o, code, insn->length - 1U);
		BYTES(o, 5); // over the jump to what follows
		exit_to(o, emit, (const uint8_t[]){0xe9}, 1, next);
		exit_to(o, emit, (const uint8_t[]){0xe9}, 1, target);
		break;
	case GR_INSN_CALL:
		block->saves = true;
		store(o, RAX, OF(o, rax));
		if (uncounted)
			count_apart(o, block->count, true);
		if (*op == 0xe8) {
			push_return(o, next);
			load(o, RAX, OF(o, rax));
			exit_to(o, emit, (const uint8_t[]){0xe9}, 1, target);
			break;
		}
		if (uncounted)
			load(o, RAX, OF(o, rax)); // it may be in the operand
		load_operand(o, code, insn, pc);
		store(o, RAX, OF(o, target));
		push_return(o, next);
		load(o, RAX, OF(o, target));
		go_by_table(o, emit->fast);
		break;
	case GR_INSN_INDIRECT:
		block->saves = true;
		store(o, RAX, OF(o, rax));
		if (uncounted) {
			count_apart(o, block->count, true);
			load(o, RAX, OF(o, rax));
		}
		load_operand(o, code, insn, pc);
		go_by_table(o, emit->fast);
		break;
	default: // GR_INSN_RET
		block->saves = true;
		store(o, RAX, OF(o, rax));
		if (uncounted)
			count_apart(o, block->count, true);
		BYTES(o, 0x48, 0x8b, 0x04, 0x24);       // mov (%rsp), %rax
		BYTES(o, 0x48, 0x8d, 0xa4, 0x24);       // lea 8 + constant(%rsp), %rsp
		put4(o, 8 + (*op == 0xc2 ? op[1] | op[2] << 8 : 0));
		go_by_table(o, emit->fast);
	}
}

static bool ends_block(const struct gr_insn *insn)
{
	return insn->kind >= GR_INSN_JCC && insn->kind <= GR_INSN_RET;
}

// Far jumps and returns are left to the processor, which goes on in the program's own code then, where it is caught.
static bool is_far(const uint8_t *code, const struct gr_insn *insn)
{
	const uint8_t *op = opcode_of(code);
	return (insn->kind == GR_INSN_RET && *op != 0xc3 && *op != 0xc2) ||
	       ((insn->kind == GR_INSN_CALL || insn->kind == GR_INSN_INDIRECT) && *op == 0xff && (op[1] >> 3 & 1));
}

static bool is_transaction(const uint8_t *code)
{
	const uint8_t *op = opcode_of(code);
	return (op[0] == 0xc7 || op[0] == 0xc6) && op[1] == 0xf8;
}

// As locks of the C library begin on replay (patch/locks.c): how long they are is not to be seen there.
static bool is_privileged(uint64_t pc)
{
	uint8_t opcode = *(const uint8_t *)pc;
	return opcode == 0xfa || opcode == 0xfb;
}

static bool is_wished(const struct gr_wish *wish, uint64_t pc)
{
	for (unsigned i = 0; i < GR_WATCHES; i++)
		if (wish->pc[i] == pc)
			return true;
	return false;
}

// Its execution is counted in front of an instruction that sets the flags anyway, behind others that leave them alone.
bool gr_block_look(const struct gr_emit *emit, struct gr_block *block, struct gr_insn_copy *steps, uint64_t avail)
{
	bool open = true;
	uint64_t pc = block->pc, end = pc + avail;
	block->counts = -1;
	block->insns = 0;
	while (block->insns < GR_BLOCK_INSNS) {
		struct gr_insn insn;
		if (pc >= end || !gr_decode((const uint8_t *)pc, end - pc, &insn) || is_transaction((const uint8_t *)pc))
			break;
		if (block->insns && is_wished(emit->wish, pc))
			break;
		if (open && !ends_block(&insn)) {
			enum gr_flags flags = gr_flags_of((const uint8_t *)pc);
			if (flags == GR_FLAGS_SET)
				block->counts = (int8_t)block->insns;
			open = flags == GR_FLAGS_KEPT;
		}
		steps[block->insns++].len = insn.length;
		pc += insn.length;
		block->last = insn.length;
		if (ends_block(&insn) || insn.kind == GR_INSN_SYSCALL || insn.kind == GR_INSN_INT3 || is_privileged(pc - insn.length))
			break;
	}
	steps[block->insns].len = 0;
	block->bytes = (uint16_t)(pc - block->pc);
	return block->insns;
}

// Has a register to spare for counting.
static bool ends_by_table(const uint8_t *code, uint8_t length)
{
	struct gr_insn insn;
	gr_decode(code, length, &insn);
	return (insn.kind == GR_INSN_CALL || insn.kind == GR_INSN_INDIRECT || insn.kind == GR_INSN_RET) && !is_far(code, &insn);
}

#define COUNT_SAVED 25 // bytes: rax saved, and count_apart

bool gr_block_emit(const struct gr_emit *emit, struct gr_block *block, struct gr_insn_copy *steps)
{
	struct gr_area *area = emit->area;
	struct out o = {.p = (uint8_t *)area + area->code_used, .area = area};
	uint8_t *start = o.p;
	uint64_t pc = block->pc;
	bool by_end = block->counts < 0 && ends_by_table((const uint8_t *)(pc + block->bytes - block->last), block->last), open = true;
	block->code = (uint64_t)start;
	block->saves = false;
	block->looked = 0;
	for (unsigned i = 0; i < GR_WATCHES; i++) {
		if (emit->wish->pc[i] != pc)
			continue;
		if (emit->wish->looks[i])
			leave(&o, pc, GR_EXIT_PASS | i << GR_EXIT_BITS);
		else
			count_down(&o, i, pc);
		block->looked = (uint16_t)(o.p - start);
	}
	if (emit->wish->instructions)
		count_instructions(&o, emit->wish->instructions, block->insns, pc);
	if (emit->wish->traces)
		leave(&o, pc, GR_EXIT_TRACE);
	block->logged = (uint16_t)(o.p - start);
	steps[0].at = block->logged;
	if (block->counts < 0 && !by_end) {
		count_apart(&o, block->count, false);
		block->counted = (uint16_t)(o.p - start);
	}
	for (int i = 0; i < block->insns; i++) {
		const uint8_t *code = (const uint8_t *)pc;
		struct gr_insn insn;
		if (i)
			steps[i].at = (uint16_t)(o.p - start);
		gr_decode(code, steps[i].len, &insn);
		if (i == block->counts) {
			count_here(&o, block->count);
			block->counted = (uint16_t)(o.p - start);
		}
		if (ends_block(&insn) && !is_far(code, &insn)) {
			ending(&o, emit, &insn, block, pc, by_end);
			if (by_end)
				block->counted = (uint16_t)(steps[i].at + COUNT_SAVED);
			open = false;
		} else if (insn.disp) {
			int32_t distance;
			memcpy(&distance, code + insn.disp, 4);
			put(&o, code, insn.disp);
			relative(&o, pc + insn.length + (int64_t)distance, insn.length - insn.disp - 4U);
			put(&o, code + insn.disp + 4, insn.length - insn.disp - 4U);
		} else {
			put(&o, code, insn.length);
		}
		pc += insn.length;
	}
	steps[block->insns].at = (uint16_t)(o.p - start);
	if (open)
		exit_to(&o, emit, (const uint8_t[]){0xe9}, 1, pc);
	exits_apart(&o);
	block->size = (uint16_t)(o.p - start);
	block->falls = open;
	if (o.failed)
		return false;
	area->code_used = (uint64_t)(o.p - (uint8_t *)area);
	return true;
}

void gr_area_begin(struct gr_area *area, struct gr_fast *fast)
{
	struct out o = {.p = (uint8_t *)area + GR_AREA_CODE, .area = area};
	area->to_glue = (uint64_t)o.p;
	store(&o, RAX, OF(&o, rax));
	BYTES(&o, 0x48, 0x8d, 0x05); // lea
	relative(&o, (uint64_t)area, 0);
	BYTES(&o, 0xff, 0x25);
	relative(&o, OF(&o, glue), 0);
	area->halt = (uint64_t)o.p;
	BYTES(&o, 0xcc, 0xcc); // behind it no block begins
	area->from_engine = (uint64_t)o.p;
	store(&o, RAX, OF(&o, rax));
	load(&o, RAX, OF(&o, back));
	BYTES(&o, 0x48, 0x89, 0x44, 0x24, 0xf8); // mov %rax, -8(%rsp): where the program has it
	go_by_table(&o, fast);
	area->code_used = (uint64_t)(o.p - (uint8_t *)area);
}
