// Finding atomic instructions; see atomics.h.
// Runs in: controllers.
// May call: the length decoder.
// Owns: nothing.
//
// The bytes are searched first, and what looks like one is decoded from the start of its function, which .eh_frame_hdr tells:
// the same bytes may be the inside of another instruction. Code without such a table is left out.
#include "atomics.h"

#include <elf.h>
#include <string.h>

#include "decode.h"

#define ENOUGH 100

struct file { const uint8_t *bytes; uint64_t size; };

// INVARIANT(within-the-file): what a program header claims is asked for here before a byte of it is looked at. No sum is made of
// what the file says, because it may wrap.
static bool is_in(const struct file *file, const Elf64_Phdr *phdr)
{
	return phdr->p_offset <= file->size && phdr->p_filesz <= file->size - phdr->p_offset;
}

// ---------------------------------------------------------------- functions
struct starts { const uint8_t *table; uint32_t count; uint64_t base; };

static int32_t word_at(const uint8_t *p)
{
	int32_t word;
	memcpy(&word, p, sizeof word);
	return word;
}

// Sorted pairs of 32-bit distances from the table's start, the one form that linkers make.
static struct starts starts_of(const struct file *file, const Elf64_Phdr *phdr)
{
	struct starts found = {0};
	if (phdr->p_filesz < 12)
		return found;
	const uint8_t *hdr = file->bytes + phdr->p_offset;
	if (hdr[0] != 1 || hdr[2] != 0x03 || hdr[3] != 0x3b)
		return found;
	found.count = (uint32_t)word_at(hdr + 8);
	if (found.count > (phdr->p_filesz - 12) / 8)
		found.count = 0;
	found.table = hdr + 12;
	found.base = phdr->p_vaddr;
	return found;
}

static uint64_t start_at(const struct starts *starts, uint32_t i)
{
	return starts->base + (uint64_t)(int64_t)word_at(starts->table + 8ul * i);
}

// The start of the function at or in front of `addr`; 0: there is none.
static uint64_t start_of(const struct starts *starts, uint64_t addr)
{
	uint32_t low = 0, high = starts->count;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (start_at(starts, middle) <= addr)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? start_at(starts, low - 1) : 0;
}

// ---------------------------------------------------------------- instructions
enum kind { NOTHING, ATOMIC, PAUSE };

// What stands at `p`, of which 16 bytes may be read, if an instruction begins there.
static enum kind kind_at(const uint8_t *p)
{
	if (p[0] == 0xf3 && p[1] == 0x90)
		return PAUSE;
	if (p[0] == 0xf0)
		return ATOMIC;
	p += (p[0] & 0xf0) == 0x40;
	return (p[0] & 0xfe) == 0x86 && p[1] < 0xc0 ? ATOMIC : NOTHING;
}

struct code { const uint8_t *bytes; uint64_t size, addr; };

// INVARIANT(decoded-forwards): places come in rising order, so the decoder goes through each function once. A table of functions
// that is not sorted would lead back: what lies there is left out.
struct place { uint64_t start, pc; };

static bool is_instruction(const struct code *code, const struct starts *starts, uint64_t at, struct place *before)
{
	uint64_t start = start_of(starts, code->addr + at);
	struct gr_insn insn;
	if (start < code->addr || start - code->addr > at || start < before->start)
		return false;
	if (before->start != start)
		*before = (struct place){start, start - code->addr};
	while (before->pc < at && gr_decode(code->bytes + before->pc, code->size - before->pc, &insn))
		before->pc += insn.length;
	return before->pc == at && gr_decode(code->bytes + at, code->size - at, &insn);
}

static void look(const struct code *code, const struct starts *starts, struct gr_atomics *ret)
{
	struct place before = {0, 0};
	for (uint64_t at = 0; at + 16 < code->size && !ret->more; at++) {
		enum kind kind = kind_at(code->bytes + at);
		if (kind == NOTHING || !is_instruction(code, starts, at, &before))
			continue;
		ret->atomics += kind == ATOMIC;
		ret->pauses += kind == PAUSE;
		ret->more = ret->atomics == ENOUGH;
	}
}

void gr_atomics_find(const uint8_t *bytes, uint64_t size, struct gr_atomics *ret)
{
	const struct file file = {bytes, size};
	struct starts starts = {0};
	uint64_t left = size; // segments of code do not overlap, so all of them are no more than the file
	Elf64_Ehdr ehdr;
	Elf64_Phdr phdr;
	*ret = (struct gr_atomics){0};
	if (size < sizeof ehdr)
		return;
	memcpy(&ehdr, bytes, sizeof ehdr);
	uint64_t table = (uint64_t)ehdr.e_phnum * sizeof phdr;
	if (memcmp(ehdr.e_ident, ELFMAG, SELFMAG) || ehdr.e_phentsize != sizeof phdr || table > size || ehdr.e_phoff > size - table)
		return;
	for (int pass = 0; pass < 2; pass++) {
		for (unsigned i = 0; i < ehdr.e_phnum; i++) {
			memcpy(&phdr, bytes + ehdr.e_phoff + i * sizeof phdr, sizeof phdr);
			if (!is_in(&file, &phdr))
				continue;
			if (pass == 0 && phdr.p_type == PT_GNU_EH_FRAME)
				starts = starts_of(&file, &phdr);
			if (pass == 0 && phdr.p_type == PT_INTERP && phdr.p_filesz < sizeof ret->loader)
				memcpy(ret->loader, bytes + phdr.p_offset, phdr.p_filesz);
			bool code = pass == 1 && phdr.p_type == PT_LOAD && phdr.p_flags & PF_X;
			if (!code || phdr.p_filesz > left)
				continue;
			left -= phdr.p_filesz;
			look(&(struct code){bytes + phdr.p_offset, phdr.p_filesz, phdr.p_vaddr}, &starts, ret);
		}
	}
}
