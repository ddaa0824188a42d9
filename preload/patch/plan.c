// What can be done about a call site, from the code around it; see patch.h.
// Runs in: application threads, on the engine's stack, signals blocked.
// May call: the loader's _dl_find_object.
// Owns: nothing.
//
// Functions and their borders come from .eh_frame_hdr, so decoding starts at an instruction's start. What follows a call
// is moved only where it cannot be reached in another way: no branch of the function and no 32-bit distance anywhere in
// the object's code ends there, and the function has no jump through a table. Nothing with memory operands is moved, so
// no moved instruction faults or is seen by a watchpoint; behind locks of the C library loads are that cannot fault.
#include <dlfcn.h>
#include <elf.h>

#include "../core/nolibc.h"
#include "decode.h"
#include "patch.h"

#define JUMP 5
#define SCAN_MAX 0x1000000 // bytes of code looked through for one site

struct object { // struct dl_find_object of glibc 2.35
	unsigned long long flags;
	void *start, *end, *link_map, *eh_frame_hdr;
	unsigned long long reserved[7];
};

static int (*find_object)(void *pc, struct object *ret);

void gr_plan_init(void);

void gr_plan_init(void)
{
	*(void **)&find_object = dlvsym(RTLD_DEFAULT, "_dl_find_object", "GLIBC_2.35");
}

// INVARIANT(vectors-untouched): the loader's function is compiled for vector registers, which a system call must keep.
static bool object_of(struct gr_thread *self, uint64_t pc, struct object *ret)
{
	void *area = (char *)self + GR_BLOCK_XSAVE;
	if (!find_object)
		return false;
	__asm__ volatile("xsave64 (%0)" : : "r"(area), "a"(-1), "d"(-1) : "memory");
	bool found = find_object((void *)pc, ret) == 0;
	__asm__ volatile("xrstor64 (%0)" : : "r"(area), "a"(-1), "d"(-1) : "memory");
	return found && ret->eh_frame_hdr;
}

// ---------------------------------------------------------------- the function around a site
static uint64_t add_at(const void *p, uint64_t base)
{
	return base + (uint64_t)(int64_t)*(const int32_t *)p;
}

// The table of .eh_frame_hdr in the one form that linkers make: sorted pairs of 32-bit distances from its start.
static bool function_of(const struct object *object, uint64_t pc, struct gr_function *ret)
{
	const uint8_t *hdr = object->eh_frame_hdr;
	if (hdr[0] != 1 || hdr[1] != 0x1b || hdr[2] != 0x03 || hdr[3] != 0x3b)
		return false;
	uint32_t low = 0, high = *(const uint32_t *)(hdr + 8);
	const uint8_t *table = hdr + 12;
	while (low < high) { // the first that starts behind pc
		uint32_t middle = low + (high - low) / 2;
		if (add_at(table + 8ul * middle, (uint64_t)hdr) <= pc)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low)
		return false;
	const uint8_t *entry = table + 8ul * (low - 1);
	const uint8_t *fde = (const uint8_t *)add_at(entry + 4, (uint64_t)hdr);
	ret->start = add_at(entry, (uint64_t)hdr);
	if (add_at(fde + 8, (uint64_t)(fde + 8)) != ret->start) // its addresses have another form
		return false;
	ret->end = ret->start + *(const uint32_t *)(fde + 12);
	return pc < ret->end && ret->start >= (uint64_t)object->start && ret->end <= (uint64_t)object->end;
}

// ---------------------------------------------------------------- moving what follows
static bool is_load(const uint8_t *p)
{
	p += *p == 0x66;
	p += (*p & 0xf0) == 0x40;
	return p[0] == 0x8b || (p[0] == 0x0f && p[1] == 0x6f);
}

// From the stack, by its pointer.
static bool is_stack_load(const uint8_t *p)
{
	if ((*p & 0xf0) == 0x40 && *p++ & 3)
		return false; // r12 stands there for the pointer, or an index
	return p[0] == 0x8b && p[1] >> 6 != 3 && (p[1] & 7) == 4 && p[2] == 0x24;
}

// Appends the instruction at `pc`; false if it means something else elsewhere.
static bool move(struct gr_plan *plan, uint64_t pc, const struct gr_insn *insn)
{
	uint8_t *to = plan->moved + plan->moved_length;
	switch ((enum gr_insn_kind)insn->kind) {
	case GR_INSN_MEMORY:
		if (!is_stack_load((const uint8_t *)pc))
			return false;
		plan->loads = true;
		// fall through
	case GR_INSN_PLAIN:
	case GR_INSN_RET:
		memcpy(to, (const void *)pc, insn->length);
		plan->moved_length += insn->length;
		return true;
	case GR_INSN_JCC:
		if (plan->jcc_at != 0xff)
			return false;
		plan->jcc_at = plan->moved_length;
		plan->jcc_target = pc + insn->length + (int64_t)insn->rel;
		to[0] = 0x0f;
		to[1] = 0x80 | insn->cc;
		plan->moved_length += 6;
		return true;
	case GR_INSN_RIP: // the address stands last where no constant follows: mov, movdqa
		if (plan->jcc_at != 0xff || plan->rip_at != 0xff || !is_load((const uint8_t *)pc))
			return false;
		memcpy(to, (const void *)pc, insn->length);
		plan->loads = true;
		plan->rip_at = plan->moved_length;
		plan->rip_length = insn->length;
		plan->rip_target = pc + insn->length + (uint64_t)(int64_t)*(const int32_t *)(pc + insn->length - 4);
		plan->moved_length += insn->length;
		return true;
	default:
		return false;
	}
}

// Behind a return the next function may begin; what fills up the room in front of it may be overwritten.
static bool is_padding(uint64_t pc, uint64_t end)
{
	const uint8_t *p = (const uint8_t *)pc;
	while (*p == 0x66 || *p == 0x2e)
		p++;
	if (p[0] == 0x0f && p[1] == 0x1f)
		return true; // a long nop: its own length reaches beyond the window, or what follows is one again
	for (p = (const uint8_t *)pc; (uint64_t)p < end; p++)
		if (*p != 0x90 && *p != 0xcc && !(*p == 0x66 && p[1] == 0x90))
			return false;
	return true;
}

bool gr_plan_follow(const struct gr_function *function, uint64_t pc, uint64_t window, struct gr_plan *ret)
{
	struct gr_insn insn;
	ret->moved_length = 0;
	ret->jcc_at = ret->rip_at = 0xff;
	ret->jcc_target = 0;
	ret->back = 0;
	ret->loads = false;
	while (pc < window) {
		if (pc >= function->end || !gr_decode((const uint8_t *)pc, function->end - pc, &insn) || !move(ret, pc, &insn))
			return false;
		pc += insn.length;
		ret->back = pc;
		if (insn.kind == GR_INSN_RET) {
			ret->back = 0;
			return is_padding(pc, window);
		}
	}
	return true;
}

// Branches of the function itself, with their exact borders.
static bool branches_into(const struct gr_function *function, uint64_t from, uint64_t to)
{
	struct gr_insn insn;
	for (uint64_t pc = function->start; pc < function->end; pc += insn.length) {
		if (!gr_decode((const uint8_t *)pc, function->end - pc, &insn))
			return true;
		if (insn.kind == GR_INSN_INDIRECT || insn.kind == GR_INSN_INT3)
			return true;
		uint64_t target = pc + insn.length + (int64_t)insn.rel;
		if (insn.rel && target >= from && target < to)
			return true;
	}
	return false;
}

bool gr_plan_make(struct gr_thread *self, uint64_t site, struct gr_plan *ret)
{
	struct object object;
	struct gr_function function;
	struct gr_insn insn;
	uint64_t before = 0, pc;
	memset(ret, 0, sizeof *ret);
	if (!object_of(self, site, &object) || !function_of(&object, site, &function))
		return false;
	for (pc = function.start; pc < site; before = pc, pc += insn.length)
		if (!gr_decode((const uint8_t *)pc, function.end - pc, &insn) || insn.kind == GR_INSN_INT3)
			return false; // a debugger's breakpoint: the borders behind it are not to be trusted
	if (pc != site)
		return false;
	if (before + JUMP == site && *(const uint8_t *)before == 0xb8) { // mov $nr, %eax
		ret->backward = true;
		ret->nr = *(const uint32_t *)(before + 1);
		return true;
	}
	if (!gr_plan_follow(&function, site + 2, site + JUMP, ret) || ret->loads)
		return false; // what reads memory is not moved
	return !branches_into(&function, site + 2, site + JUMP);
}

// ---------------------------------------------------------------- branches from elsewhere
// Does a distance at `p` belong to call, jmp, a conditional jump or an operand relative to rip (lea)?
static bool is_distance(const uint8_t *p, const uint8_t *start)
{
	if (p - start < 2)
		return true;
	return p[-1] == 0xe8 || p[-1] == 0xe9 || (p[-2] == 0x0f && (p[-1] & 0xf0) == 0x80) || (p[-1] & 0xc7) == 0x05;
}

// Every four bytes are looked at, so a branch cannot hide; a site that is met by accident keeps its trap.
static bool distance_into(const uint8_t *code, uint64_t length, uint64_t from, uint64_t to)
{
	uint64_t base = (uint64_t)code + 4 - from, size = to - from;
	for (uint64_t i = 0; i + 4 <= length; i++)
		if (base + i + (uint64_t)(int64_t)*(const int32_t *)(code + i) < size && is_distance(code + i, code))
			return true;
	return false;
}

static bool short_branch_into(const struct gr_function *function, uint64_t low, uint64_t high, uint64_t from, uint64_t to)
{
	uint64_t pc = from - 129 > low ? from - 129 : low;
	for (; pc < to + 127 && pc + 2 <= high; pc++) {
		const uint8_t *p = (const uint8_t *)pc;
		uint64_t target = pc + 2 + (int64_t)(int8_t)p[1];
		bool branch = (p[0] & 0xf0) == 0x70 || p[0] == 0xeb || (p[0] & 0xfc) == 0xe0;
		if (branch && target >= from && target < to && !(pc >= function->start && pc < function->end))
			return true;
	}
	return false;
}

bool gr_plan_is_private(struct gr_thread *self, uint64_t site)
{
	struct object object;
	struct gr_function function;
	uint64_t from = site + 2, to = site + JUMP;
	if (!object_of(self, site, &object) || !function_of(&object, site, &function))
		return false;
	const Elf64_Ehdr *ehdr = object.start;
	if (memcmp(ehdr->e_ident, ELFMAG, SELFMAG) || ehdr->e_phentsize != sizeof(Elf64_Phdr))
		return false;
	const Elf64_Phdr *phdr = (const Elf64_Phdr *)((const char *)ehdr + ehdr->e_phoff);
	uint64_t base = 0, scanned = 0;
	bool first = true;
	for (int i = 0; i < ehdr->e_phnum; i++, phdr++) {
		if (phdr->p_type != PT_LOAD)
			continue;
		if (first)
			base = (uint64_t)object.start - (phdr->p_vaddr & ~4095ULL);
		first = false;
		if (!(phdr->p_flags & PF_X))
			continue;
		uint64_t start = base + phdr->p_vaddr;
		scanned += phdr->p_filesz;
		if (!(phdr->p_flags & PF_R) || scanned > SCAN_MAX || start + phdr->p_filesz > (uint64_t)object.end)
			return false;
		if (distance_into((const uint8_t *)start, phdr->p_filesz, from, to))
			return false;
		if (from >= start && from < start + phdr->p_filesz &&
		    short_branch_into(&function, start, start + phdr->p_filesz, from, to))
			return false;
	}
	return scanned != 0;
}

// ---------------------------------------------------------------- for the locks inside the C library
bool gr_plan_text(struct gr_thread *self, uint64_t pc, struct gr_text *ret)
{
	struct object object;
	if (!object_of(self, pc, &object))
		return false;
	const Elf64_Ehdr *ehdr = object.start;
	const Elf64_Phdr *phdr = (const Elf64_Phdr *)((const char *)ehdr + ehdr->e_phoff);
	*ret = (struct gr_text){.map = object.link_map, .tables = object.eh_frame_hdr};
	ret->object_start = (uint64_t)object.start;
	ret->object_end = (uint64_t)object.end;
	for (int i = 0; i < ehdr->e_phnum; i++, phdr++) {
		uint64_t start = (uint64_t)object.start + phdr->p_vaddr;
		if (phdr->p_type != PT_LOAD || !(phdr->p_flags & PF_X) || pc < start || pc >= start + phdr->p_filesz)
			continue;
		ret->start = start;
		ret->end = start + phdr->p_filesz;
		ret->offset = phdr->p_offset;
	}
	return ret->start != 0;
}

bool gr_plan_function(const struct gr_text *text, uint64_t pc, struct gr_function *ret)
{
	const struct object object = {
		.start = (void *)text->object_start, .end = (void *)text->object_end, .eh_frame_hdr = (void *)text->tables,
	};
	return function_of(&object, pc, ret);
}
