// gdbrr-vectors.so: vector registers for a gdbserver that knows Intel's processors only, as those before 14 do. Such a one has the places
// of the parts of a thread's state by heart; AMD's since Zen 3 have other ones, and so it clears ZMM16 to ZMM19 whenever it writes a
// register, as behind each breakpoint: what memset was about to store became zeros. Here it is shown what it takes for granted.
// Runs in: gdbserver, by LD_PRELOAD. May call: libc.
// Owns: nothing.
#define _GNU_SOURCE
#include <cpuid.h>
#include <dlfcn.h>
#include <elf.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

#define STATE_LEAF 0xd // of cpuid
#define HEADER_END 576 // up to here all processors are alike
#define MOST (1 << 14) // with the tiles of AMX

static struct part {
	unsigned number, intels; // where gdbserver 13 has it (gdbsupport/x86-xstate.h)
	unsigned at, size;       // in this processor; size 0: it has none
} parts[] = {{2, 576, 0, 0}, {3, 960, 0, 0}, {4, 1024, 0, 0}, {5, 1088, 0, 0}, {6, 1152, 0, 0}, {7, 1664, 0, 0}, {9, 2688, 0, 0}};

#define EACH_PART(part) (struct part *part = parts; part < parts + sizeof parts / sizeof *parts; part++)

static long (*next)(enum __ptrace_request, ...);
static size_t length; // of a state, as the kernel tells it

__attribute__((constructor)) static void init(void)
{
	unsigned flags, none;
	for EACH_PART (part)
		__get_cpuid_count(STATE_LEAF, part->number, &part->size, &part->at, &flags, &none);
	next = (long (*)(enum __ptrace_request, ...))dlsym(RTLD_NEXT, "ptrace");
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

static void copy(struct iovec to, struct iovec from, bool to_intels)
{
	memcpy(to.iov_base, from.iov_base, least(HEADER_END, least(to.iov_len, from.iov_len)));
	for EACH_PART (part) {
		size_t target = to_intels ? part->intels : part->at, source = to_intels ? part->at : part->intels;
		if (target + part->size <= to.iov_len && source + part->size <= from.iov_len)
			memcpy((char *)to.iov_base + target, (char *)from.iov_base + source, part->size);
	}
}

static long translated(enum __ptrace_request request, int pid, struct iovec *theirs)
{
	char state[MOST];
	struct iovec own = {state, sizeof state};
	long ret = next(PTRACE_GETREGSET, pid, NT_X86_XSTATE, &own);
	if (ret != 0)
		return ret;
	length = own.iov_len;
	if (theirs->iov_len <= length)
		return next(request, pid, NT_X86_XSTATE, theirs);
	if (request == PTRACE_SETREGSET) {
		copy(own, *theirs, false);
		return next(request, pid, NT_X86_XSTATE, &own);
	}
	memset(theirs->iov_base, 0, theirs->iov_len);
	copy(*theirs, own, true);
	return 0;
}

long ptrace(enum __ptrace_request request, ...)
{
	va_list args;
	va_start(args, request);
	int pid = va_arg(args, int);
	uintptr_t addr = va_arg(args, uintptr_t);
	void *data = va_arg(args, void *);
	va_end(args);
	// Who has room for more than there is takes it to be laid out as Intel's; a gdbserver that asks the processor has just enough.
	bool vectors = (request == PTRACE_GETREGSET || request == PTRACE_SETREGSET) && addr == NT_X86_XSTATE;
	if (vectors && ((struct iovec *)data)->iov_len > length)
		return translated(request, pid, data);
	return next(request, pid, addr, data);
}
