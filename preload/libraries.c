// The place of a program's libraries; see libraries.h.
// Runs in: the launcher, as the tracer of a program that begins.
// May call: libc.
// Owns: nothing.
//
// While the loader looks for libraries it has its cache mapped, and the kernel puts each library in front of what is there. So
// a cache with other pages than while recording (a package was installed, another machine) moves them all. Then it is mapped
// elsewhere, and as many pages as it had stand in for it until the engine's constructor begins.
#define _GNU_SOURCE
#include "libraries.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>

#include "abi.h"

#define CACHE "/etc/ld.so.cache"
#define ELSEWHERE 0x0f0000000000 // only a wish
#define PAGE 4096
#define INSTRUCTION 2 // bytes of `syscall`

enum { BEGINS = PTRACE_SYSCALL_INFO_ENTRY, ENDS = PTRACE_SYSCALL_INFO_EXIT };

// Goes on to where the next call begins or ends. False: the program is gone.
static bool next_stop(pid_t child, int which, struct user_regs_struct *ret)
{
	struct __ptrace_syscall_info info;
	int status, signal = 0;
	for (;;) {
		if (ptrace(PTRACE_SYSCALL, child, 0, signal) < 0)
			return false;
		while (waitpid(child, &status, __WALL) < 0)
			if (errno != EINTR)
				return false;
		if (!WIFSTOPPED(status))
			return false;
		signal = 0;
		if (WSTOPSIG(status) != (SIGTRAP | 0x80))
			signal = status >> 16 ? 0 : WSTOPSIG(status);
		else if (ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof info, &info) < 0)
			return false;
		else if (info.op == which)
			return ptrace(PTRACE_GETREGS, child, 0, ret) == 0;
	}
}

// Where a call begins: makes another one in front of it, and comes back to where it begins.
static bool call_before(pid_t child, const struct user_regs_struct *at, struct user_regs_struct call, uint64_t *ret)
{
	struct user_regs_struct regs;
	if (ptrace(PTRACE_SETREGS, child, 0, &call) < 0 || !next_stop(child, ENDS, &regs))
		return false;
	*ret = regs.rax;
	regs = *at;
	regs.rax = at->orig_rax;
	regs.rip -= INSTRUCTION;
	return ptrace(PTRACE_SETREGS, child, 0, &regs) == 0 && next_stop(child, BEGINS, &regs);
}

static bool names_cache(pid_t child, uint64_t address)
{
	char text[sizeof CACHE];
	struct iovec here = {text, sizeof text}, there = {(void *)address, sizeof text};
	return process_vm_readv(child, &here, 1, &there, 1, 0) == sizeof text && memcmp(text, CACHE, sizeof text) == 0;
}

// Maps what the open call that begins at `at` brings elsewhere, behind `pages` that stand in for it. Those, or 0.
static uint64_t stand_in(pid_t child, struct user_regs_struct *at, uint64_t pages)
{
	struct user_regs_struct call = *at, regs;
	uint64_t filler = 0;
	call.orig_rax = SYS_mmap;
	call.rdi = 0;
	call.rsi = pages * PAGE;
	call.rdx = PROT_NONE;
	call.r10 = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	call.r8 = ~0ULL;
	call.r9 = 0;
	if (pages && (!call_before(child, at, call, &filler) || filler > -PAGE - 1ULL))
		return 0;
	if (!next_stop(child, ENDS, &regs))
		return filler;
	uint64_t fd = regs.rax;
	while ((int64_t)fd >= 0 && next_stop(child, BEGINS, &regs)) {
		struct user_regs_struct entry = regs;
		bool maps = regs.orig_rax == SYS_mmap && regs.r8 == fd;
		if (maps) {
			regs.rdi = ELSEWHERE;
			ptrace(PTRACE_SETREGS, child, 0, &regs);
		}
		if (!next_stop(child, ENDS, &regs))
			break;
		if (maps) {
			regs.rdi = entry.rdi;
			ptrace(PTRACE_SETREGS, child, 0, &regs);
			break;
		}
		if (entry.orig_rax == SYS_close && entry.rdi == fd)
			break;
	}
	return filler;
}

// INVARIANT(cache-seen-late): asked for in the moment before the loader maps it, because a package may be installed at any time.
bool gr_libraries_move(uint64_t cache_pages)
{
	struct stat st;
	uint64_t pages = stat(CACHE, &st) == 0 ? ((uint64_t)st.st_size + PAGE - 1) / PAGE : 0;
	return pages != cache_pages;
}

void gr_libraries_place(pid_t child, uint64_t cache_pages)
{
	struct user_regs_struct regs;
	uint64_t filler = 0, done;
	const long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXEC | PTRACE_O_TRACESECCOMP | PTRACE_O_EXITKILL;
	if (ptrace(PTRACE_SETOPTIONS, child, 0, options) < 0)
		return;
	while (next_stop(child, BEGINS, &regs)) {
		if (regs.orig_rax == SYS_mmap && regs.rdi == GR_CTL_ADDR) {
			struct user_regs_struct call = regs;
			call.orig_rax = SYS_munmap;
			call.rdi = filler;
			call.rsi = cache_pages * PAGE;
			if (filler)
				call_before(child, &regs, call, &done);
			return;
		}
		if (!filler && regs.orig_rax == SYS_openat && names_cache(child, regs.rsi))
			filler = stand_in(child, &regs, cache_pages);
	}
}
