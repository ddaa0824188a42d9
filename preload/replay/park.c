// Parking; see park.h.
// Runs in: application threads while replaying.
// May call: core.
// Owns: the saved context and vector state of a parked thread.
#include "park.h"

#include <linux/futex.h>
#include <signal.h>

#include "../core/raw.h"

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
// on in all of them.
void gr_park(struct gr_thread *self)
{
	GR_PARK_SAVE(self);
	__atomic_store_n(&self->pub.state, GR_T_PARKED, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&self->turn, __ATOMIC_ACQUIRE))
		GR_RAW(SYS_futex, &self->turn, FUTEX_WAIT_PRIVATE, 0, 0, 0, 0);
	self->turn = 0;
	self->pub.state = GR_T_ENGINE;
}

void gr_unpark(struct gr_thread *other)
{
	__atomic_store_n(&other->turn, 1, __ATOMIC_RELEASE);
	GR_RAW(SYS_futex, &other->turn, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
}

void gr_park_await(struct gr_thread *other)
{
	while (__atomic_load_n(&other->pub.state, __ATOMIC_ACQUIRE) != GR_T_PARKED)
		GR_RAW(SYS_sched_yield);
}
