// One core for all; see together.h.
// Runs in: application threads, recording in turns and replaying.
// May call: core, raw system calls.
// Owns: the core, and the cores that threads have otherwise.
//
// Each thread goes there, and comes back, when it has the turn: a fence allows no more than that on replay.
#include "together.h"

#include <time.h>

#include "../core/nolibc.h"
#include "../core/page.h"
#include "../core/raw.h"

#define NEAR 16             // hand-overs
#define NEAR_TIME 32000000  // nanoseconds in which so many are frequent
#define LOOK 64             // turns between two looks at the time
#define STAY_TIME 20000000  // nanoseconds until it is looked whether the core was a good one
#define WORST 6             // times that the time until the next attempt doubles, where the core was a bad one
#define RARE 10             // hand-overs in that time, fewer of which are not worth it
#define WORDS 16            // of a mask: 1,024 cores

uint32_t gr_together_where; // number of the core plus 1; 0: none

static struct {
	uint32_t latch;
	bool never;
	uint64_t cores[WORDS]; // where threads run that are not kept
	long bytes;            // of those
	uint64_t since, used;  // when it was last looked: the time, and what the process had of processors
	uint32_t handed, turns;
	uint32_t bad;          // attempts in a row that had to share the core
	uint64_t not_before;
} together;

static uint64_t clock_of(int clock)
{
	struct timespec now = {0, 0};
	GR_RAW(SYS_clock_gettime, clock, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void look_from_here(uint64_t now)
{
	together.since = now;
	together.used = gr_together_where ? clock_of(CLOCK_PROCESS_CPUTIME_ID) : 0;
	together.handed = together.turns = 0;
}

// The core that this thread runs on: the kernel put it there, so it had nothing else to do.
static void choose(uint64_t now)
{
	uint64_t mask[WORDS] = {0};
	uint32_t cpu = 0, count = 0;
	long bytes = GR_RAW(SYS_sched_getaffinity, 0, sizeof mask, mask);
	GR_RAW(SYS_getcpu, &cpu, 0, 0);
	for (unsigned i = 0; bytes > 0 && i < WORDS; i++)
		count += (uint32_t)__builtin_popcountll(mask[i]);
	if (count > 1 && cpu < WORDS * 64 && mask[cpu / 64] & 1ULL << cpu % 64) {
		memcpy(together.cores, mask, sizeof mask);
		together.bytes = bytes;
		__atomic_store_n(&gr_together_where, cpu + 1, __ATOMIC_RELEASE);
	}
	look_from_here(now);
}

static void decide(const struct gr_thread *self)
{
	uint64_t now = clock_of(CLOCK_MONOTONIC), passed = now - together.since;
	if (!gr_together_where) {
		if (passed > NEAR_TIME || self->together || now < together.not_before)
			look_from_here(now);
		else
			choose(now);
		return;
	}
	together.turns = 0;
	if (passed < STAY_TIME)
		return;
	// Who waits, or has to share the core, has less of it than there was.
	bool alone = clock_of(CLOCK_PROCESS_CPUTIME_ID) - together.used > passed / 4 * 3;
	together.bad = alone ? 0 : together.bad + (together.bad < WORST);
	together.not_before = alone ? 0 : now + (STAY_TIME << together.bad);
	if (!alone || together.handed < RARE)
		__atomic_store_n(&gr_together_where, 0, __ATOMIC_RELEASE);
	look_from_here(now);
}

static void go(uint32_t tid, uint32_t where)
{
	uint64_t one[WORDS] = {0};
	if (where)
		one[(where - 1) / 64] = 1ULL << (where - 1) % 64;
	GR_RAW(SYS_sched_setaffinity, tid, together.bytes, where ? one : together.cores);
}

static void follow(struct gr_thread *self)
{
	gr_latch(&together.latch);
	if (self->together != gr_together_where)
		go(0, gr_together_where);
	self->together = gr_together_where;
	gr_unlatch(&together.latch);
}

void gr_together_run(struct gr_thread *self, bool handed)
{
	if (!together.never) {
		together.handed += handed;
		if (gr_together_where ? ++together.turns >= LOOK : handed && together.handed >= NEAR)
			decide(self);
	}
	if (self->together != gr_together_where)
		follow(self);
}

// Who is being born has no id yet, and comes by gr_together_run. On replay everybody does.
void gr_together_apart(void)
{
	struct gr_thread *t;
	if (!together.bytes)
		return;
	if (gr_mode == GR_MODE_REPLAY) {
		gr_together_where = 0;
		if (gr_self && gr_self->together)
			follow(gr_self);
		return;
	}
	gr_latch(&together.latch);
	__atomic_store_n(&gr_together_where, 0, __ATOMIC_RELEASE);
	for (uint32_t i = 0; i < GR_LIVE_THREADS && !gr_thread_untouched(t = gr_thread_block(i)); i++) {
		if (!t->together || !gr_thread_lives(t) || !t->pub.tid)
			continue;
		go(t->pub.tid, 0);
		t->together = 0;
	}
	together.handed = 0;
	gr_unlatch(&together.latch);
}

void gr_together_never(void)
{
	together.never = true;
	gr_together_apart();
}

void gr_together_copied(void)
{
	together.latch = 0;
	gr_together_where = 0;
	if (together.bytes)
		go(0, 0);
	struct gr_thread *t;
	for (uint32_t i = 0; i < GR_LIVE_THREADS && !gr_thread_untouched(t = gr_thread_block(i)); i++)
		t->together = 0;
	together.handed = together.turns = 0;
}
