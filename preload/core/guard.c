// The verbs of an operation; see guard.h.
// Runs in: application threads; gr_real_init in the constructor, before any other.
// May call: dlvsym, only in gr_real_init.
// Owns: gr_real; the exported dlopen.
#include "guard.h"

#include <dlfcn.h>
#include <ucontext.h>

void *gr_real[GR_WRAP_COUNT] __attribute__((visibility("hidden")));
int (*gr_real_getattr)(pthread_t, pthread_attr_t *);
void (*gr_real_exit)(void *), (*gr_real_exit_c11)(int);
int (*gr_real_backtrace)(void **, int);
__attribute__((visibility("hidden"))) void *gr_real_dlopen;

// What is not there stays NULL: a program that calls it could not have been linked.
bool gr_real_init(void)
{
#define WRAP(name, version, op, doc) \
	if (version[0] == 'G') \
		gr_real[GR_WRAP_##name] = dlvsym(RTLD_NEXT, #name, version);
#include "../tables/wrappers.def"
#undef WRAP
	gr_real_dlopen = dlvsym(RTLD_NEXT, "dlopen", "GLIBC_2.34");
	gr_real_getattr = (int (*)(pthread_t, pthread_attr_t *))dlvsym(RTLD_NEXT, "pthread_getattr_np", "GLIBC_2.32");
	gr_real_exit = (void (*)(void *))dlvsym(RTLD_NEXT, "pthread_exit", "GLIBC_2.2.5");
	gr_real_exit_c11 = (void (*)(int))dlvsym(RTLD_NEXT, "thrd_exit", "GLIBC_2.34");
	gr_real_backtrace = (int (*)(void **, int))dlvsym(RTLD_NEXT, "backtrace", "GLIBC_2.2.5");
	return gr_real[GR_WRAP_pthread_create];
}

// A library that is loaded with RTLD_DEEPBIND finds the C library in front of the engine: it would lock beside it, and free what
// the engine has allocated. So that is left out. The library judges by the return address whose libraries are meant: it has to
// be the program's.
__attribute__((naked, visibility("default"))) void *dlopen(__attribute__((unused)) const char *name, __attribute__((unused)) int flags)
{
	__asm__("and $~8, %esi\n\tjmp *gr_real_dlopen(%rip)");
}
_Static_assert(RTLD_DEEPBIND == 8, "what dlopen leaves out");

void gr_show_syscall(struct gr_thread *self, const struct gr_regs *frame)
{
	self->pub.shown = *frame;
	self->pub.shown.fs_base = self->fs_base;
	self->pub.shown.gs_base = 0;
	self->pub.shown.rip -= 2;
	self->pub.shown.rcx = frame->rip; // trapped or patched, as the kernel leaves them
	self->pub.shown.r11 = frame->eflags;
	self->pub.ret_pc = frame->rip;
}

// The call instruction in front of the return address: e8 rel32, or ff /2 with a register (2, 3 bytes with a prefix),
// a rip-relative or a displaced memory operand (6, 3 bytes). Where none of these stands (a tail call), the return address itself.
static unsigned call_length(uint64_t ret_pc)
{
	const uint8_t *p = (const uint8_t *)ret_pc;
	if (p[-5] == 0xe8)
		return 5;
	if (p[-6] == 0xff && (p[-5] & 0x38) == 0x10)
		return 6;
	if (p[-3] == 0x41 && p[-2] == 0xff && (p[-1] & 0xf8) == 0xd0)
		return 3;
	if (p[-2] == 0xff && (p[-1] & 0x38) == 0x10)
		return 2;
	if (p[-3] == 0xff && (p[-2] & 0xf8) == 0x50)
		return 3;
	return 0;
}

void gr_show_call(struct gr_thread *self, const struct gr_regs *frame)
{
	self->pub.shown = *frame;
	self->pub.shown.fs_base = self->fs_base;
	self->pub.shown.gs_base = 0;
	self->pub.shown.rip -= call_length(frame->rip);
	self->pub.ret_pc = frame->rip;
}

struct gr_regs gr_regs_of(const long long *r)
{
	return (struct gr_regs){
		.rax = r[REG_RAX], .rbx = r[REG_RBX], .rcx = r[REG_RCX], .rdx = r[REG_RDX],
		.rsi = r[REG_RSI], .rdi = r[REG_RDI], .rbp = r[REG_RBP], .rsp = r[REG_RSP],
		.r8 = r[REG_R8], .r9 = r[REG_R9], .r10 = r[REG_R10], .r11 = r[REG_R11],
		.r12 = r[REG_R12], .r13 = r[REG_R13], .r14 = r[REG_R14], .r15 = r[REG_R15],
		.rip = r[REG_RIP], .eflags = r[REG_EFL],
	};
}

void gr_show_context(struct gr_thread *self, const void *ucontext)
{
	self->pub.shown = gr_regs_of(((const ucontext_t *)ucontext)->uc_mcontext.gregs);
	self->pub.shown.fs_base = self->fs_base;
}
