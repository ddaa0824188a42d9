// Copies that survive a bad address; see copy.h.
// Runs in: everywhere in the engine; gr_copy_recover in the handler of SIGSEGV and SIGBUS.
// May call: raw system calls.
// Owns: the variables of copy.h.
#include "copy.h"

#include <errno.h>
#include <sys/uio.h>

#include "raw.h"

bool gr_copy_guarded, gr_copy_watched;
void (*gr_copy_mapped)(uint64_t from, uint64_t len);
bool (*gr_copy_protected)(siginfo_t *info, void *context);
bool (*gr_copy_elsewhere)(int sig, siginfo_t *info, void *context);
bool (*gr_copy_lift)(uint64_t at, size_t n);
void (*gr_copy_put_back)(void);

// The bytes that were copied. Written out because the handler must know the instructions that may fault.
__asm__(
	".globl gr_copy\n.hidden gr_copy\n.type gr_copy, @function\n"
	"gr_copy:\n"
	".cfi_startproc\n"
	"	mov %rdx, %rcx\n"
	"	cmp $256, %rcx\n"
	"	ja gr_copy_bytes\n" // long ones: the processor's own loop
	"1:	cmp $8, %rcx\n"
	"	jb 2f\n"
	"gr_copy_load:\n"
	"	mov (%rsi), %rax\n"
	"gr_copy_store:\n"
	"	mov %rax, (%rdi)\n"
	"	lea 8(%rsi), %rsi\n"
	"	lea 8(%rdi), %rdi\n"
	"	sub $8, %rcx\n"
	"	jmp 1b\n"
	"2:	test %rcx, %rcx\n"
	"	jz gr_copy_end\n"
	"gr_copy_last_load:\n" // the string instruction takes as long to start as all of them
	"	movzbl (%rsi), %eax\n"
	"gr_copy_last_store:\n"
	"	mov %al, (%rdi)\n"
	"	lea 1(%rsi), %rsi\n"
	"	lea 1(%rdi), %rdi\n"
	"	sub $1, %rcx\n"
	"	jnz gr_copy_last_load\n"
	"	jmp gr_copy_end\n"
	"gr_copy_bytes:\n"
	"	rep movsb\n"
	"gr_copy_end:\n"
	"	mov %rdx, %rax\n"
	"	sub %rcx, %rax\n"
	"	ret\n"
	".cfi_endproc\n"
	".size gr_copy, .-gr_copy\n");

// A store that changes nothing to each page of [rdi, rsi); false where one is not to be had.
__asm__(
	".globl gr_storable\n.hidden gr_storable\n.type gr_storable, @function\n"
	"gr_storable:\n"
	".cfi_startproc\n"
	"1:	cmp %rsi, %rdi\n"
	"	jae 2f\n"
	"gr_storable_store:\n"
	"	lock orb $0, (%rdi)\n" // locked: another thread may be storing there
	"	add $4096, %rdi\n"
	"	and $-4096, %rdi\n"
	"	jmp 1b\n"
	"2:	mov $1, %eax\n"
	"	ret\n"
	"gr_storable_end:\n"
	"	xor %eax, %eax\n"
	"	ret\n"
	".cfi_endproc\n"
	".size gr_storable, .-gr_storable\n");

extern const char gr_copy_load[], gr_copy_store[], gr_copy_bytes[], gr_copy_end[] __attribute__((visibility("hidden")));
extern const char gr_copy_last_load[], gr_copy_last_store[] __attribute__((visibility("hidden")));
extern const char gr_storable_store[], gr_storable_end[] __attribute__((visibility("hidden")));

// A word that cannot be copied whole is copied byte by byte up to the border; a byte ends the copy.
bool gr_copy_recover(ucontext_t *context)
{
	greg_t *rip = &context->uc_mcontext.gregs[REG_RIP];
	if (*rip == (greg_t)gr_copy_load || *rip == (greg_t)gr_copy_store)
		*rip = (greg_t)gr_copy_bytes;
	else if (*rip == (greg_t)gr_copy_bytes || *rip == (greg_t)gr_copy_last_load || *rip == (greg_t)gr_copy_last_store)
		*rip = (greg_t)gr_copy_end;
	else if (*rip == (greg_t)gr_storable_store)
		*rip = (greg_t)gr_storable_end;
	else
		return false;
	return true;
}

// The kernel is asked by the thread's id, because a process whose first thread has ended is none to it. Where no Landlock keeps other
// processes out of reach, the fence knows one id only, that of the first process.
static long across(long nr, struct iovec *local, struct iovec *remote)
{
	long ret = GR_RAW(nr, gr_tid(), local, 1, remote, 1, 0);
	return ret == -EPERM ? GR_RAW(nr, gr_pid(), local, 1, remote, 1, 0) : ret;
}

// The kernel's way costs 300 ns and is taken only while a fault here would end in somebody else's handler, or a look be a hit.
size_t gr_peek(void *dst, uint64_t src, size_t n)
{
	if (__atomic_load_n(&gr_copy_guarded, __ATOMIC_RELAXED) && !gr_copy_watched)
		return gr_copy(dst, (const void *)src, n);
	struct iovec local = {dst, n}, remote = {(void *)src, n};
	long ret = across(SYS_process_vm_readv, &local, &remote);
	if (ret != (long)n && gr_copy_lift && gr_copy_lift(src, n)) {
		ret = across(SYS_process_vm_readv, &local, &remote);
		gr_copy_put_back();
	}
	return GR_IS_ERR(ret) ? 0 : (size_t)ret;
}

static long kernel_poke(uint64_t dst, const void *src, size_t n)
{
	struct iovec local = {(void *)src, n}, remote = {(void *)dst, n};
	return across(SYS_process_vm_writev, &local, &remote);
}

size_t gr_poke(uint64_t dst, const void *src, size_t n)
{
	if (__atomic_load_n(&gr_copy_guarded, __ATOMIC_RELAXED))
		return gr_copy((void *)dst, src, n);
	long ret = kernel_poke(dst, src, n);
	return GR_IS_ERR(ret) ? 0 : (size_t)ret;
}

size_t gr_poke_unseen(uint64_t dst, const void *src, size_t n)
{
	long ret = gr_copy_watched ? kernel_poke(dst, src, n) : -EPERM;
	if (ret == -EPERM)
		return gr_poke(dst, src, n);
	return GR_IS_ERR(ret) ? 0 : (size_t)ret;
}
