// The timer of a thread that holds a signal; see loop.h.
// Runs in: application threads while recording.
// May call: core.
// Owns: the kernel's timers of the engine.
#include "loop.h"

#include <time.h>

#include "../../core/nolibc.h"
#include "../../core/raw.h"

#define NANO 1000000000ULL

// `timer` is the kernel's number plus 1.
static bool create(struct gr_thread *self)
{
	struct { uint64_t value; int32_t signal, notify, thread, pad[11]; } event = {
		.value = (uint64_t)self, .signal = SIGTRAP, .notify = SIGEV_THREAD_ID, .thread = (int32_t)self->pub.tid,
	};
	int32_t number;
	if (GR_RAW(SYS_timer_create, CLOCK_MONOTONIC, &event, &number))
		return false;
	self->timer = number + 1;
	return true;
}

bool gr_tick_arm(struct gr_thread *self, uint64_t first, uint64_t again)
{
	const struct itimerspec when = {
		.it_value = {first / NANO, first % NANO}, .it_interval = {again / NANO, again % NANO},
	};
	if (!self->timer && !create(self))
		return false;
	self->ticking = first != 0;
	return GR_RAW(SYS_timer_settime, self->timer - 1, 0, &when, 0) == 0;
}

void gr_tick_look(struct gr_thread *self)
{
	gr_tick_arm(self, GR_TICK_LOOK / 2 + gr_hash_word(GR_HASH_SEED, __builtin_ia32_rdtsc()) % GR_TICK_LOOK, 0);
}

bool gr_tick_is(const struct gr_thread *self, const siginfo_t *info)
{
	return info->si_code == SI_TIMER && (uint64_t)info->si_value.sival_ptr == (uint64_t)self;
}

void gr_tick_delete(struct gr_thread *self)
{
	if (self->timer)
		GR_RAW(SYS_timer_delete, self->timer - 1);
	self->timer = 0;
}
