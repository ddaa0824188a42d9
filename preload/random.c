// The random bytes of a program's start, and where it gets more of them.
// Runs in: the launcher, as the tracer of a program that begins.
// May call: libc.
// Owns: nothing.
//
// Since Linux 6.11 the vDSO has a random generator, which glibc 2.41 finds before there is an engine: later it asks nobody
// else, and keeps the state of each thread in memory that it maps, or not, as the kernel is. So it finds none.
#define _GNU_SOURCE
#include "random.h"

#include <elf.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

#include "carried.h"

#define NAME "\0__vdso_getrandom" // in the table of names; `getrandom`, its end, is another name
#define LARGEST 0x10000

bool gr_random_set(pid_t child, const uint8_t bytes[16])
{
	uint64_t addr = gr_auxv_get(child, AT_RANDOM);
	for (int i = 0; i < 16; i += 8) {
		uint64_t word;
		memcpy(&word, bytes + i, 8);
		if (addr == 0 || ptrace(PTRACE_POKEDATA, child, addr + (uint64_t)i, word) < 0)
			return false;
	}
	return true;
}

static bool get(pid_t child, uint64_t addr, void *to, size_t len)
{
	struct iovec here = {to, len}, there = {(void *)addr, len};
	return process_vm_readv(child, &here, 1, &there, 1, 0) == (ssize_t)len;
}

bool gr_random_hide(pid_t child)
{
	static char image[LARGEST];
	uint64_t vdso = gr_auxv_get(child, AT_SYSINFO_EHDR), size = 0;
	Elf64_Ehdr head;
	Elf64_Phdr row;
	if (!vdso)
		return true;
	if (!get(child, vdso, &head, sizeof head))
		return false;
	for (uint64_t i = 0; i < head.e_phnum; i++) {
		if (!get(child, vdso + head.e_phoff + i * sizeof row, &row, sizeof row))
			return false;
		if (row.p_type == PT_LOAD)
			size = row.p_filesz < LARGEST ? row.p_filesz : LARGEST;
	}
	if (!get(child, vdso, image, size))
		return false;
	const char *name = memmem(image, size, NAME, sizeof NAME);
	uint64_t word, at = vdso + (uint64_t)(name - image) + 1;
	if (!name)
		return true;
	memcpy(&word, name + 1, sizeof word);
	return ptrace(PTRACE_POKEDATA, child, at, (word & ~0xffULL) | '-') == 0;
}
