// Standing still; see halt.h.
// Runs in: application threads while recording.
// May call: core, log.
// Owns: who wants the others to stand, and since when they may go on.
#include "halt.h"

#include <linux/futex.h>
#include <time.h>

#include "../core/copy.h"
#include "../core/page.h"
#include "../core/raw.h"
#include "../log/edge.h"
#include "../log/log.h"

#define PATIENCE 50000   // microseconds until all have to stand
#define SHARE 8          // times what was waited in vain nobody waits again

static _Alignas(64) uint32_t wanted; // futex: 1 + block of who wants it; 0: nobody
static uint32_t arrived;             // futex: how often somebody came to stand while it was wanted
static uint64_t newest;              // stamp of the newest event behind which all stood
static uint64_t rests;               // microseconds: until then nobody is asked

// ---------------------------------------------------------------- who stands
// INVARIANT(no-step-while-wanted): each side writes first and then looks at what the other has written. So whoever was seen to stand
// finds that he is wanted, before he goes on.
static void arrive(struct gr_thread *self)
{
	__atomic_store_n(&self->stands_still, true, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&wanted, __ATOMIC_SEQ_CST)) {
		__atomic_add_fetch(&arrived, 1, __ATOMIC_SEQ_CST);
		GR_RAW(SYS_futex, &arrived, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
	}
}

void gr_halt_stand(struct gr_thread *self)
{
	arrive(self);
}

void gr_halt_go(struct gr_thread *self)
{
	uint32_t seen;
	for (;;) {
		__atomic_store_n(&self->stands_still, false, __ATOMIC_SEQ_CST);
		if (!(seen = __atomic_load_n(&wanted, __ATOMIC_SEQ_CST)))
			break;
		arrive(self);
		GR_RAW(SYS_futex, &wanted, FUTEX_WAIT_PRIVATE, seen, 0, 0, 0);
	}
	if (__atomic_load_n(&newest, __ATOMIC_ACQUIRE) > self->stamp)
		gr_edge_rest(self);
}

void gr_halt_step(struct gr_thread *self, enum gr_step step)
{
	struct gr_event ev = {.kind = GR_OP_TURN};
	if (step == GR_STEP_YIELD || self->within || !__atomic_load_n(&wanted, __ATOMIC_SEQ_CST))
		return;
	gr_log(self, &ev);
	gr_halt_stand(self);
	gr_halt_go(self);
}

// ---------------------------------------------------------------- who wants it
// Of one that is through its last operation the kernel still clears the word.
static bool is_gone(const struct gr_thread *t)
{
	uint32_t word;
	if (GR_RAW(SYS_tgkill, gr_pid(), t->pub.tid, 0))
		return true;
	return t->ctid && (gr_peek(&word, (uint64_t)t->ctid, sizeof word) != sizeof word || word != t->pub.tid);
}

// Of a thread that the library has not made nobody knows where its kernel id stands.
static bool stands(const struct gr_thread *t)
{
	switch (__atomic_load_n(&t->pub.state, __ATOMIC_ACQUIRE)) {
	case GR_T_FREE:
		return true;
	case GR_T_EXITED:
		return is_gone(t);
	}
	return __atomic_load_n(&t->stands_still, __ATOMIC_SEQ_CST) && gr_thread_of_library(t);
}

static bool each_stands(const struct gr_thread *self)
{
	for (uint32_t i = 0; i < gr_thread_blocks(); i++)
		if (gr_thread_block(i) != self && !stands(gr_thread_block(i)))
			return false;
	return true;
}

// INVARIANT(no-birth-unseen): who makes a thread does not stand. What was made while the first look went past its block is there at
// the second one; what was begun since then has been counted.
static bool all_stand(const struct gr_thread *self)
{
	uint32_t made = __atomic_load_n(&gr_ctl->threads, __ATOMIC_SEQ_CST);
	return each_stands(self) && each_stands(self) && __atomic_load_n(&gr_ctl->threads, __ATOMIC_SEQ_CST) == made;
}

bool gr_halt_others(struct gr_thread *self)
{
	uint32_t nobody = 0;
	uint64_t began = gr_time_now(), now = began;
	if (began < __atomic_load_n(&rests, __ATOMIC_RELAXED) ||
	    !__atomic_compare_exchange_n(&wanted, &nobody, self->block + 1, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
		return false;
	__atomic_store_n(&gr_turn_steps, true, __ATOMIC_SEQ_CST);
	for (;;) {
		uint32_t seen = __atomic_load_n(&arrived, __ATOMIC_SEQ_CST);
		if (all_stand(self))
			return true;
		if ((now = gr_time_now()) >= began + PATIENCE)
			break;
		struct timespec rest = {0, (long)(began + PATIENCE - now) * 1000};
		GR_RAW(SYS_futex, &arrived, FUTEX_WAIT_PRIVATE, seen, &rest, 0, 0);
	}
	__atomic_store_n(&rests, now + SHARE * (now - began), __ATOMIC_RELAXED);
	gr_halt_end(self);
	return false;
}

void gr_halt_end(struct gr_thread *self)
{
	if (self->stamp > newest)
		__atomic_store_n(&newest, self->stamp, __ATOMIC_RELEASE);
	__atomic_store_n(&gr_turn_steps, false, __ATOMIC_SEQ_CST);
	__atomic_store_n(&wanted, 0, __ATOMIC_SEQ_CST);
	GR_RAW(SYS_futex, &wanted, FUTEX_WAKE_PRIVATE, 0x7fffffff, 0, 0, 0);
}
