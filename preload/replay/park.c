// Parking; see park.h.
// Runs in: application threads while replaying.
// May call: core.
// Owns: the saved context and vector state of a parked thread.
#include "park.h"

#include <linux/futex.h>
#include <signal.h>

#include "../core/copy.h"
#include "../core/page.h"
#include "../core/raw.h"
#include "../log/together.h"

static void (*on_remade)(struct gr_thread *self);

void gr_park_init(void (*remade)(struct gr_thread *self))
{
	on_remade = remade;
}

// A system call keeps vector registers, so those of a thread parked at one are live.
void gr_park_before(struct gr_thread *self)
{
	void *area = (char *)self + GR_BLOCK_XSAVE;
	__asm__ volatile("xsave64 (%0)" : : "r"(area), "a"(-1), "d"(-1) : "memory");
	GR_RAW(SYS_rt_sigprocmask, SIG_SETMASK, 0, &self->mask, 8);
}

void gr_park_after(struct gr_thread *self)
{
	void *area = (char *)self + GR_BLOCK_XSAVE;
	on_remade(self);
	__asm__ volatile("xrstor64 (%0)" : : "r"(area), "a"(-1), "d"(-1) : "memory");
	GR_RAW(SYS_rt_sigprocmask, SIG_SETMASK, &self->mask, 0, 8);
}

// INVARIANT(parked-means-saved): PARKED is announced behind the save, so a copy made when every thread is PARKED can go
// on in all of them. Of a replay that only runs no copies are made.
void gr_park(struct gr_thread *self)
{
	if (gr_slot->flags & GR_SLOT_HOLD_END)
		GR_PARK_SAVE(self);
	__atomic_store_n(&self->pub.state, GR_T_PARKED, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&self->awaited, __ATOMIC_SEQ_CST))
		GR_RAW(SYS_futex, &self->pub.state, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
	while (!__atomic_load_n(&self->turn, __ATOMIC_ACQUIRE))
		GR_RAW(SYS_futex, &self->turn, FUTEX_WAIT_PRIVATE, 0, 0, 0, 0);
	self->turn = 0;
	self->pub.state = GR_T_ENGINE;
	gr_together_run(self, true);
}

// ---------------------------------------------------------------- the first task of a process without a main thread
static char leader_stack[0x1000] __attribute__((aligned(64)));

// What the kernel does at a thread's end: robust mutexes that it holds are marked, in the order of its list.
static void mark_robust(uint64_t head, uint32_t tid)
{
	struct { uint64_t next; int64_t offset; uint64_t pending; } list;
	uint64_t entry;
	uint32_t word;
	if (!head || gr_peek(&list, head, sizeof list) != sizeof list)
		return;
	entry = list.next;
	for (unsigned i = 0; i < 2048 && entry && entry != head; i++) {
		uint64_t at = (entry & ~1ULL) + list.offset;
		if (gr_peek(&word, at, sizeof word) == sizeof word && (word & 0x3fffffff) == tid) {
			word = (word & FUTEX_WAITERS) | FUTEX_OWNER_DIED;
			gr_poke_unseen(at, &word, sizeof word);
			GR_RAW(SYS_futex, at, FUTEX_WAKE, 1, 0, 0, 0);
		}
		if (gr_peek(&entry, entry & ~1ULL, sizeof entry) != sizeof entry)
			return;
	}
}

// INVARIANT(word-last): behind the clearing of its word the thread's block, and the engine's stack in it, are another's.
static void stay(void *arg)
{
	struct gr_thread *ended = arg;
	uint64_t all = ~0ULL;
	uint32_t nobody = 0;
	GR_RAW(SYS_rt_sigprocmask, SIG_SETMASK, &all, 0, 8);
	if (ended) {
		mark_robust(ended->robust, ended->pub.tid);
		uint32_t *word = ended->clears;
		gr_poke_unseen((uint64_t)word, &nobody, sizeof nobody);
		GR_RAW(SYS_futex, word, FUTEX_WAKE, 1, 0, 0, 0);
	}
	for (;;)
		GR_RAW(SYS_futex, leader_stack, FUTEX_WAIT_PRIVATE, 0, 0, 0, 0);
}

_Noreturn void gr_park_leader(struct gr_thread *ended)
{
	gr_call_on((uint64_t)leader_stack + sizeof leader_stack, stay, ended);
}

void gr_unpark(struct gr_thread *other)
{
	__atomic_store_n(&other->turn, 1, __ATOMIC_RELEASE);
	GR_RAW(SYS_futex, &other->turn, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
}

void gr_park_await(struct gr_thread *other)
{
	uint32_t state;
	__atomic_store_n(&other->awaited, 1, __ATOMIC_SEQ_CST);
	while ((state = __atomic_load_n(&other->pub.state, __ATOMIC_SEQ_CST)) != GR_T_PARKED)
		GR_RAW(SYS_futex, &other->pub.state, FUTEX_WAIT_PRIVATE, state, 0, 0, 0);
	__atomic_store_n(&other->awaited, 0, __ATOMIC_RELAXED);
}
