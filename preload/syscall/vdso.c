// The vDSO answers without a system call, so it is rewritten to make one.
// Runs in: the constructor.
// May call: core.
// Owns: the text of the vDSO from here on.
#include <elf.h>
#include <errno.h>
#include <sys/mman.h>
#include <time.h>

#include "../core/copy.h"
#include "../core/nolibc.h"
#include "../core/page.h"
#include "../core/panic.h"
#include "../core/raw.h"
#include "../patch/patch.h"
#include "dispatch.h"

static const struct { const char *name; uint32_t nr; } functions[] = {
	{"__vdso_clock_gettime", SYS_clock_gettime}, {"__vdso_gettimeofday", SYS_gettimeofday},
	{"__vdso_time", SYS_time},                   {"__vdso_getcpu", SYS_getcpu},
	{"__vdso_clock_getres", SYS_clock_getres},
};

// The kernel's own functions without a system call; NULL where they would make one. The clocks they know.
static long (*kept)(long clock, struct timespec *ret);
static long (*kept_core)(unsigned *core, unsigned *node, void *unused);
#define KEPT_CLOCKS 0x8f3ul // REALTIME, MONOTONIC, MONOTONIC_RAW, both coarse ones, BOOTTIME, TAI
static uint64_t vdso_start, vdso_end;

static bool now(struct gr_thread *self, uint64_t number, struct timespec *ret)
{
	long (*clock)(long, struct timespec *) = __atomic_load_n(&kept, __ATOMIC_RELAXED);
	if (!clock || number > 63 || !(1ul << number & KEPT_CLOCKS))
		return false;
	self->nest++;
	long failed = clock((long)number, ret);
	self->nest--;
	return !failed;
}

// As the system call: an address without memory is an error and no fault.
static long store(uint64_t to, const struct gr_vdso_answer *answer)
{
	return !to || gr_copy((void *)to, answer->bytes, answer->len) == answer->len ? 0 : -EFAULT;
}

bool gr_vdso_answers(struct gr_thread *self, long nr, const uint64_t *arg, struct gr_vdso_answer *ret, long *result)
{
	struct timespec at;
	uint32_t core[2];
	if ((nr != SYS_clock_gettime && nr != SYS_gettimeofday && nr != SYS_time && nr != SYS_getcpu) || !gr_copy_guarded || gr_copy_watched)
		return false;
	switch (nr) {
	case SYS_clock_gettime:
		if (!now(self, arg[0], &at))
			return false;
		*ret = (struct gr_vdso_answer){{at.tv_sec, at.tv_nsec}, 16};
		*result = arg[1] ? store(arg[1], ret) : -EFAULT;
		return true;
	case SYS_gettimeofday:
		if (arg[1] || !now(self, CLOCK_REALTIME, &at)) // the time zone is not in the clock
			return false;
		*ret = (struct gr_vdso_answer){{at.tv_sec, at.tv_nsec / 1000}, 16};
		*result = store(arg[0], ret);
		return true;
	case SYS_time:
		if (!now(self, CLOCK_REALTIME_COARSE, &at))
			return false;
		*ret = (struct gr_vdso_answer){{at.tv_sec}, 8};
		*result = store(arg[0], ret) ? -EFAULT : at.tv_sec;
		return true;
	}
	if (!kept_core || arg[1] || kept_core(&core[0], &core[1], NULL))
		return false;
	*ret = (struct gr_vdso_answer){{core[0]}, 4};
	*result = store(arg[0], ret);
	return true;
}

void gr_vdso_forget(void)
{
	__atomic_store_n(&kept, NULL, __ATOMIC_RELAXED);
}

void gr_vdso_trapped(uint64_t pc)
{
	if (pc >= vdso_start && pc < vdso_end)
		gr_vdso_forget();
}

// mov $nr, %eax; syscall; ret; where call sites are patched, with a jump for the mov. The random generator of Linux 6.11, whose
// other name the launcher has hidden (preload/random.c), gets mov $-ENOSYS, %rax; ret.
static void rewrite(uint8_t *text, const char *name)
{
	static const uint8_t fails[] = {0x48, 0xc7, 0xc0, 0xda, 0xff, 0xff, 0xff, 0xc3};
	for (unsigned i = 0; i < sizeof functions / sizeof *functions; i++)
		if (gr_strcmp(functions[i].name, name) == 0) {
			uint64_t copy = gr_tsc_trapped ? 0 : gr_patch_keep((uint64_t)text, 8);
			if (functions[i].nr == SYS_clock_gettime)
				kept = (long (*)(long, struct timespec *))copy;
			else if (functions[i].nr == SYS_getcpu)
				kept_core = (long (*)(unsigned *, unsigned *, void *))copy;
			uint8_t code[] = {0, 0, 0, 0, 0, 0x0f, 0x05, 0xc3};
			gr_patch_fresh((uint64_t)text, functions[i].nr, code);
			memcpy(text, code, sizeof code);
			return;
		}
	if (gr_strcmp("getrandom", name) == 0)
		memcpy(text, fails, sizeof fails);
}

// How large the vDSO is, now writable; 0 where nobody may write there. The kernel changes its mapping as a whole or not at
// all, and the program headers may tell of less (one page of two in Linux 6.1): so it is tried page by page, and the first
// size that works does not reach into what lies behind.
#define VDSO_MOST (16 * 4096ul)

static uint64_t writable(uint64_t vdso, uint64_t least)
{
	for (uint64_t size = least; size <= VDSO_MOST; size += 4096)
		if (!GR_RAW(SYS_mprotect, vdso, size, PROT_READ | PROT_WRITE | PROT_EXEC))
			return size;
	return 0;
}

void gr_vdso_init(uint64_t vdso)
{
	const Elf64_Ehdr *ehdr = (const Elf64_Ehdr *)vdso;
	const Elf64_Phdr *phdr = (const Elf64_Phdr *)(vdso + ehdr->e_phoff);
	const Elf64_Dyn *dyn = NULL;
	uint64_t bias = vdso, size = 0;
	for (int i = 0; i < ehdr->e_phnum; i++) {
		if (phdr[i].p_type == PT_LOAD) {
			bias = vdso - phdr[i].p_vaddr + phdr[i].p_offset;
			size = (phdr[i].p_vaddr + phdr[i].p_memsz + 4095) & ~4095ULL;
		} else if (phdr[i].p_type == PT_DYNAMIC) {
			dyn = (const Elf64_Dyn *)(vdso + phdr[i].p_offset);
		}
	}
	const Elf64_Sym *symbols = NULL;
	const char *names = NULL;
	const uint32_t *hash = NULL;
	uint32_t count = 0;
	for (; dyn && dyn->d_tag != DT_NULL; dyn++) {
		if (dyn->d_tag == DT_SYMTAB)
			symbols = (const Elf64_Sym *)(bias + dyn->d_un.d_ptr);
		else if (dyn->d_tag == DT_STRTAB)
			names = (const char *)(bias + dyn->d_un.d_ptr);
		else if (dyn->d_tag == DT_HASH)
			hash = (const uint32_t *)(bias + dyn->d_un.d_ptr);
	}
	if (!symbols || !names)
		return;
	// With only a GNU hash table the string table's start ends the symbols: the linker puts it right behind them.
	count = hash ? hash[1] : (uint32_t)(((const char *)names - (const char *)symbols) / sizeof *symbols);
	size = writable(vdso, size);
	if (!size)
		gr_panic(NULL, GR_PANIC_REFUSED, "a kernel whose vDSO cannot be rewritten: its clocks would not be recorded", 0, 0);
	vdso_start = vdso;
	vdso_end = vdso + size;
	gr_text_whole(vdso_start, vdso_end);
	for (uint32_t i = 0; i < count; i++)
		if (ELF64_ST_TYPE(symbols[i].st_info) == STT_FUNC && symbols[i].st_shndx != SHN_UNDEF)
			rewrite((uint8_t *)(bias + symbols[i].st_value), names + symbols[i].st_name);
	GR_RAW(SYS_mprotect, vdso, size, PROT_READ | PROT_EXEC);
}
