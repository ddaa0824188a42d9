// What the loader leaves behind; see loader.h.
// Runs in: the constructor, and the first operation.
// May call: core.
// Owns: nothing.
#include "loader.h"

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>

#include "../abi.h"
#include "../core/nolibc.h"
#include "../core/raw.h"

#define NEAR_READING 40
#define LOADER_STACK 0x20000

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

void gr_loader_forget(uint64_t loader)
{
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
		const uint8_t *end = text + phdr[i].p_memsz - NEAR_READING - 8;
		for (; text < end; text++)
			if (text[0] == 0x0f && text[1] == 0x31)
				forget_behind(text, &data);
	}
}

// Pages are given back, which makes zeros of them; below the stack there is a gap with nothing in it.
void gr_loader_clear_stack(uint64_t sp)
{
	uint64_t whole = sp & ~(uint64_t)(GR_PAGE - 1);
	memset((void *)whole, 0, sp - whole);
	GR_RAW(SYS_madvise, whole - LOADER_STACK, LOADER_STACK, MADV_DONTNEED);
}
