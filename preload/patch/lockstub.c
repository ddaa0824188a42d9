// Stubs of the locks inside the C library; see locks.h.
// Runs in: the only thread there is.
// May call: raw system calls.
// Owns: the section gr_lockstubs.
//
//	        .quad lock              struct gr_lock
//	head:   mov %rcx, saved         thread-local
//	        mov self, %rcx
//	        jrcxz native            a thread without the engine
//	        mov nest(%rcx), %ecx
//	        jrcxz operation
//	native: mov saved, %rcx
//	        movq $0, saved
//	        the instruction
//	moved:  the instructions that the jump replaced besides
//	        jmp back
//	operation:
//	        mov %r11, saved too
//	        lea -128(%rsp), %rsp    below the red zone
//	        lea head(%rip), %r11
//	        call *door(%rip)
//	        lea 128(%rsp), %rsp
//	        jmp behind
//
// Flags are not touched: what follows an xchg may look at older ones.
#include <sys/mman.h>

#include "../core/nolibc.h"
#include "../core/raw.h"
#include "locks.h"
#include "patch.h"

#define STUB_MAX 160
#define NEST ((uint32_t)offsetof(struct gr_thread, nest))

extern char __start_gr_lockstubs[] __attribute__((visibility("hidden")));

static uint64_t door, next, end;
static uint32_t self_at, rcx_at, r11_at; // from the thread pointer

bool gr_lockstub_open(const struct gr_thread *self, uint64_t start, uint64_t stop)
{
	uint64_t from = (uint64_t)__start_gr_lockstubs, far = from < start ? stop - from : from + GR_LOCKSTUBS_SIZE - start;
	if (far > 0x7ff00000 || GR_RAW(SYS_mprotect, from, GR_LOCKSTUBS_SIZE, PROT_READ | PROT_WRITE | PROT_EXEC))
		return false;
	self_at = (uint32_t)((uint64_t)&gr_self - self->fs_base);
	rcx_at = (uint32_t)((uint64_t)&gr_lock_rcx - self->fs_base);
	r11_at = (uint32_t)((uint64_t)&gr_lock_r11 - self->fs_base);
	door = from;
	*(uint64_t *)door = (uint64_t)gr_lock_stub;
	next = from + 16;
	end = from + GR_LOCKSTUBS_SIZE;
	return true;
}

void gr_lockstub_close(void)
{
	GR_RAW(SYS_mprotect, __start_gr_lockstubs, GR_LOCKSTUBS_SIZE, GR_TEXT);
}

// ---------------------------------------------------------------- code
static uint64_t at;

static void put(const void *bytes, uint64_t n)
{
	memcpy((void *)at, bytes, n);
	at += n;
}

static void put_word(const char *opcode, uint64_t n, uint32_t word)
{
	put(opcode, n);
	put(&word, 4);
}

static void put_far(const char *opcode, uint64_t n, uint64_t to)
{
	put_word(opcode, n, (uint32_t)(to - (at + n + 4)));
}

static void put_short(char opcode, uint64_t from, uint64_t to)
{
	*(char *)from = opcode;
	*(int8_t *)(from + 1) = (int8_t)(to - (from + 2));
}

// The address of an operand relative to rip stands last.
static void put_instruction(const struct gr_lock *lock)
{
	bool relative = lock->base == GR_LOCK_NONE && (lock->bytes[lock->length - 5] & 0xc7) == 5;
	if (relative)
		put_far((const char *)lock->bytes, lock->length - 4, lock->fixed);
	else
		put(lock->bytes, lock->length);
}

static void put_moved(const struct gr_plan *plan)
{
	uint64_t n = plan->jcc_at != 0xff ? plan->jcc_at : plan->rip_at != 0xff ? plan->rip_at : plan->moved_length;
	put(plan->moved, n);
	if (plan->jcc_at != 0xff) {
		put_far((const char *)plan->moved + n, 2, plan->jcc_target);
		n += 6;
	} else if (plan->rip_at != 0xff) {
		put_far((const char *)plan->moved + n, plan->rip_length - 4u, plan->rip_target);
		n += plan->rip_length;
	}
	put(plan->moved + n, plan->moved_length - n);
}

uint64_t gr_lockstub_make(struct gr_lock *lock, const struct gr_plan *follows)
{
	if (next + STUB_MAX > end)
		return 0;
	at = next;
	put(&lock, sizeof lock);
	uint64_t head = at, quit, work;
	put_word("\x64\x48\x89\x0c\x25", 5, rcx_at);
	put_word("\x64\x48\x8b\x0c\x25", 5, self_at);
	quit = at;
	at += 2;
	put_word("\x8b\x89", 2, NEST);
	work = at;
	at += 2;
	put_short('\xe3', quit, at);
	put_word("\x64\x48\x8b\x0c\x25", 5, rcx_at);
	put_word("\x64\x48\xc7\x04\x25", 5, rcx_at);
	put("\0\0\0", 4);
	lock->native = at;
	put_instruction(lock);
	if (follows) {
		lock->behind = at;
		put_moved(follows);
	}
	put_far("\xe9", 1, lock->addr + lock->window);
	put_short('\xe3', work, at);
	put_word("\x64\x4c\x89\x1c\x25", 5, r11_at);
	put("\x48\x8d\x64\x24\x80", 5);
	put_far("\x4c\x8d\x1d", 3, head);
	put_far("\xff\x15", 2, door);
	put("\x48\xc7\x44\x24\xf8\0\0\0\0", 9); // INVARIANT(no-trace-of-stubs): where it was called from (sync/lock.c)
	put("\x48\x8d\xa4\x24\x80\0\0\0", 8);
	put_far("\xe9", 1, lock->behind);
	next = (at + 15) & ~15ULL;
	return head;
}

const struct gr_lock *gr_lock_of_stub(uint64_t stub)
{
	bool ours = stub > (uint64_t)__start_gr_lockstubs && stub < (uint64_t)__start_gr_lockstubs + GR_LOCKSTUBS_SIZE;
	return ours ? ((const struct gr_lock *const *)stub)[-1] : NULL;
}
