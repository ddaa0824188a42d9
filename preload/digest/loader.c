// What the loader leaves behind; see loader.h.
// Runs in: the constructor, and the first operation.
// May call: core, patch.
// Owns: the end of the loader's resolver.
#include "loader.h"

#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "../abi.h"
#include "../core/nolibc.h"
#include "../core/raw.h"
#include "../patch/bind.h"
#include "../patch/patch.h"
#include "loader.h"

#define NEAR_READING 40
#define LOADER_STACK 0x20000
#define BESIDE 2 // words
#define COUNTED 64 // instructions that count
#define CACHE_MOST 0x4000000

// The loader's own data that can still be written: not what it has sealed when it was done with itself.
struct data { uint64_t start, end, sealed, sealed_end; };

// The loader measures its own start with rdtsc, for LD_DEBUG=statistics (relocate_time in glibc's elf/rtld.c). The variable has
// no symbol, so what is looked for is the store behind a reading:
//	rdtsc ... or %rdx,%rax ... mov %rax,x(%rip)  or  add %rax,x(%rip)
// The loader has printed its statistics before it starts anybody, so nobody reads the variable any more.
static void forget_behind(const uint8_t *reading, const struct data *data)
{
	bool whole = false;
	for (const uint8_t *p = reading + 2; p < reading + NEAR_READING; p++) {
		if (p[0] == 0x48 && p[1] == 0x09 && p[2] == 0xd0)
			whole = true;
		if (!whole || p[0] != 0x48 || (p[1] != 0x89 && p[1] != 0x01) || p[2] != 0x05)
			continue;
		int32_t offset;
		memcpy(&offset, p + 3, sizeof offset);
		uint64_t word = (uint64_t)p + 7 + (int64_t)offset;
		bool sealed = word >= data->sealed && word < data->sealed_end;
		if (word >= data->start && word + 8 <= data->end && word % 8 == 0 && !sealed)
			*(uint64_t *)word = 0;
		return;
	}
}

static bool is_mapped(uint64_t addr)
{
	unsigned char in_core;
	return GR_RAW(SYS_mincore, addr, 1, &in_core) != -ENOMEM;
}

// Where the loader's cache of libraries was mapped, and how large the file is, stays in variables when it is unmapped, which nobody
// reads before it is mapped again: installing a package changes them. They have no symbols. The address is one where nothing is
// mapped any more; the size stands beside it, and is the file's, or, where a packed demo has brought another cache along, fills
// the gap that it left exactly.
static void forget_cache(const struct data *data)
{
	struct stat st;
	uint64_t *address = NULL, *size = NULL;
	if (GR_RAW(SYS_stat, "/etc/ld.so.cache", &st))
		st.st_size = 0;
	for (uint64_t *word = (uint64_t *)data->start; word < (uint64_t *)data->end; word++) {
		bool sealed = (uint64_t)word >= data->sealed && (uint64_t)word < data->sealed_end;
		if (sealed || !*word || *word % GR_PAGE || *word >> 47 || is_mapped(*word))
			continue;
		for (uint64_t *beside = word - BESIDE; beside <= word + BESIDE; beside++) {
			uint64_t end = *word + ((*beside + GR_PAGE - 1) & ~(uint64_t)(GR_PAGE - 1));
			bool ours = (uint64_t)beside >= data->start && (uint64_t)(beside + 1) <= data->end && beside != word;
			if (!ours || !*beside || *beside >= CACHE_MOST)
				continue;
			if (*beside != (uint64_t)st.st_size && (is_mapped(end - GR_PAGE) || !is_mapped(end)))
				continue;
			if (address)
				return;
			address = word, size = beside;
		}
	}
	if (address)
		*address = *size = 0;
}

// The loader counts the symbols that it looks up and those that it still knew, for LD_DEBUG=statistics (_dl_num_relocations and
// _dl_num_cache_relocations, neighbours in glibc's _rtld_global). Two threads that call a function for the first time at once both look it up,
// where in a replay the second one finds it; and they count without a lock.
static struct gr_counters counters;

struct gr_counters gr_loader_counters(void)
{
	return counters;
}

//	addq $1,x(%rip)
static uint64_t counted_at(const uint8_t *p, const struct data *data)
{
	int32_t offset;
	if (p[0] != 0x48 || p[1] != 0x83 || p[2] != 0x05 || p[7] != 1)
		return 0;
	memcpy(&offset, p + 3, sizeof offset);
	uint64_t word = (uint64_t)p + 8 + (int64_t)offset;
	return word >= data->start && word + 8 <= data->end && word % 8 == 0 ? word : 0;
}

static void find_counters(const uint8_t *text, const uint8_t *end, const struct data *data)
{
	uint64_t found[COUNTED], count = 0;
	for (; text < end && count < COUNTED; text++)
		if ((found[count] = counted_at(text, data)))
			count++;
	for (uint64_t i = 0; i < count; i++)
		for (uint64_t k = 0; k < count; k++)
			if (found[k] == found[i] + 8)
				counters = (struct gr_counters){found[i], found[k] + 8};
}

// At a function's first call the loader's resolver saves the vector registers on the program's stack. Which of them the processor
// writes depends on whether the kernel has switched threads meanwhile, and what is left there comes to light as somebody's
// uninitialised variable. INVARIANT(nothing-left-of-vectors): the resolver clears what it saved before it goes on. That has room in
// the place of its last loads (sysdeps/x86_64/dl-trampoline.h in glibc 2.34 to 2.41); the CFA stands in rbx there, before and after.
static const uint8_t resolver_end[] = {
	0x0f, 0xae, 0x6c, 0x24, 0x40, // xrstor 0x40(%rsp)
	0x4c, 0x8b, 0x4c, 0x24, 0x30, // mov 0x30(%rsp),%r9
	0x4c, 0x8b, 0x44, 0x24, 0x28, // mov 0x28(%rsp),%r8
	0x48, 0x8b, 0x7c, 0x24, 0x20, // mov 0x20(%rsp),%rdi
	0x48, 0x8b, 0x74, 0x24, 0x18, // mov 0x18(%rsp),%rsi
	0x48, 0x8b, 0x54, 0x24, 0x10, // mov 0x10(%rsp),%rdx
	0x48, 0x8b, 0x4c, 0x24, 0x08, // mov 0x8(%rsp),%rcx
	0x48, 0x8b, 0x04, 0x24,       // mov (%rsp),%rax
	0x48, 0x89, 0xdc,             // mov %rbx,%rsp
};
static const uint8_t clearing_end[] = {
	0x0f, 0xae, 0x6c, 0x24, 0x40, // xrstor 0x40(%rsp)
	0x48, 0x8d, 0x7c, 0x24, 0x40, // lea 0x40(%rsp),%rdi
	0x48, 0x89, 0xd9,             // mov %rbx,%rcx
	0x48, 0x29, 0xf9,             // sub %rdi,%rcx
	0xc1, 0xe9, 0x03,             // shr $3,%ecx
	0x31, 0xc0,                   // xor %eax,%eax
	0xf3, 0x48, 0xab,             // rep stos %rax,(%rdi)
	0x58, 0x59, 0x5a, 0x5e, 0x5f, // pop %rax; pop %rcx; pop %rdx; pop %rsi; pop %rdi
	0x41, 0x58, 0x41, 0x59,       // pop %r8; pop %r9
	0x0f, 0x1f, 0x44, 0x00, 0x00, // nopl 0x0(%rax,%rax,1)
	0x90,                         // nop
	0x48, 0x89, 0xdc,             // mov %rbx,%rsp
};
_Static_assert(sizeof clearing_end == sizeof resolver_end, "what follows stays where it is");

// In front of that end stand: call _dl_fixup; mov %rax,%r11; mov $STATE,%eax; xor %edx,%edx
#define BEHIND_CALL 10

static uint64_t called_by(const uint8_t *resolver)
{
	int32_t offset;
	if (resolver[-BEHIND_CALL - 5] != 0xe8)
		return 0;
	memcpy(&offset, resolver - BEHIND_CALL - 4, sizeof offset);
	return (uint64_t)resolver - BEHIND_CALL + (int64_t)offset;
}

void gr_loader_forget(uint64_t loader)
{
	uint64_t fixup = 0;
	const Elf64_Ehdr *ehdr = (const Elf64_Ehdr *)loader;
	const Elf64_Phdr *phdr = (const Elf64_Phdr *)(loader + ehdr->e_phoff);
	struct data data = {0};
	for (int i = 0; i < ehdr->e_phnum; i++) {
		uint64_t start = loader + phdr[i].p_vaddr, end = start + phdr[i].p_memsz;
		if (phdr[i].p_type == PT_LOAD && phdr[i].p_flags & PF_W)
			data.start = start, data.end = end;
		else if (phdr[i].p_type == PT_GNU_RELRO)
			data.sealed = start, data.sealed_end = end;
	}
	for (int i = 0; i < ehdr->e_phnum; i++) {
		if (phdr[i].p_type != PT_LOAD || !(phdr[i].p_flags & PF_X))
			continue;
		const uint8_t *text = (const uint8_t *)(loader + phdr[i].p_vaddr);
		const uint8_t *end = text + phdr[i].p_memsz - NEAR_READING - sizeof resolver_end;
		find_counters(text, end, &data);
		for (; text < end; text++)
			if (text[0] == 0x0f && text[1] == 0x31)
				forget_behind(text, &data);
			else if (text[0] == resolver_end[0] && !memcmp(text, resolver_end, sizeof resolver_end)) {
				fixup = called_by(text);
				gr_text_write((uint64_t)text, clearing_end, sizeof clearing_end, GR_TEXT);
			}
	}
	gr_bind_init(fixup);
	forget_cache(&data);
}

// Pages are given back, which makes zeros of them; below the stack there is a gap with nothing in it.
void gr_loader_clear_stack(uint64_t sp)
{
	uint64_t whole = sp & ~(uint64_t)(GR_PAGE - 1);
	memset((void *)whole, 0, sp - whole);
	GR_RAW(SYS_madvise, whole - LOADER_STACK, LOADER_STACK, MADV_DONTNEED);
}
