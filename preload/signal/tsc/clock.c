// The time stamp counter where it must not be read: computed from the kernel's raw clock, which runs on it.
// Runs in: the handler of SIGSEGV, on the engine's alternate stack.
// May call: core.
// Owns: the points at which the counter was really read.
//
// Letting one instruction pass costs two calls of prctl, which take the kernel some 20 us; asking for the time takes a tenth of
// a microsecond. So the counter is really read now and then, and in between a line is drawn through the points found. The first
// two are far enough apart for a line; each further one is twice as far from the first, so there are few.
//
// INVARIANT(counter-never-back): each line begins where the one before has come to, or above, so what one thread reads, and
// tells another, is never more than what that one reads next.
#include "clock.h"

#include <stdbool.h>
#include <sys/prctl.h>
#include <time.h>

#include "../../core/raw.h"

#define POINTS 64
#define SHORTEST 4000000 // nanoseconds between the first two
#define TRIES 3

struct point { uint64_t ns, counter, slope; }; // slope: cycles in 2^32 nanoseconds

static struct point points[POINTS];
static uint32_t count; // of whole ones
static uint32_t looking;

static uint64_t raw_clock(void)
{
	struct timespec now;
	GR_RAW(SYS_clock_gettime, CLOCK_MONOTONIC_RAW, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void allow(bool allowed)
{
	GR_RAW(SYS_prctl, PR_SET_TSC, allowed ? PR_TSC_ENABLE : PR_TSC_SIGSEGV, 0, 0, 0);
}

static uint64_t really(void)
{
	allow(true);
	uint64_t counter = __builtin_ia32_rdtsc();
	allow(false);
	return counter;
}

// Both at one instant: of some tries the one that took the shortest, so that being interrupted does no harm.
static void meet(struct point *point)
{
	uint64_t shortest = ~0ULL;
	allow(true);
	for (int i = 0; i < TRIES; i++) {
		uint64_t before = __builtin_ia32_rdtsc(), ns = raw_clock(), after = __builtin_ia32_rdtsc();
		if (after - before >= shortest)
			continue;
		shortest = after - before;
		point->ns = ns;
		point->counter = before + shortest / 2;
	}
	allow(false);
}

static uint64_t on_line(const struct point *from, uint64_t ns)
{
	return ns <= from->ns ? from->counter : from->counter + (uint64_t)((unsigned __int128)(ns - from->ns) * from->slope >> 32);
}

static bool is_due(uint32_t have, uint64_t ns)
{
	uint64_t first = points[0].ns, newest = points[have - 1].ns;
	return have < POINTS && ns > newest && ns - newest >= (newest - first > SHORTEST ? newest - first : SHORTEST);
}

// By parts: a division of 128 bits is a function of the compiler's library.
static uint64_t slope_of(uint64_t cycles, uint64_t ns)
{
	uint64_t slope = cycles / ns;
	for (uint64_t rest = cycles % ns, bit = 0; bit < 32; bit++) {
		rest *= 2;
		slope = slope * 2 + (rest >= ns);
		rest -= rest >= ns ? ns : 0;
	}
	return slope;
}

// One thread adds a point; the others stay on the old line meanwhile.
static uint64_t add_point(uint32_t have)
{
	struct point *point = &points[have];
	meet(point);
	if (have)
		point->slope = slope_of(point->counter - points[0].counter, point->ns - points[0].ns);
	uint64_t line = have > 1 ? on_line(&points[have - 1], point->ns) : 0;
	if (point->counter < line)
		point->counter = line;
	__atomic_store_n(&count, have + 1, __ATOMIC_RELEASE);
	return point->counter;
}

uint64_t gr_tsc_clock(void)
{
	uint32_t have = __atomic_load_n(&count, __ATOMIC_ACQUIRE);
	uint64_t ns = raw_clock();
	if ((!have || is_due(have, ns)) && !__atomic_exchange_n(&looking, 1, __ATOMIC_ACQUIRE)) {
		have = __atomic_load_n(&count, __ATOMIC_ACQUIRE);
		uint64_t counter = have && !is_due(have, ns) ? 0 : add_point(have);
		__atomic_store_n(&looking, 0, __ATOMIC_RELEASE);
		if (counter)
			return counter;
		have = __atomic_load_n(&count, __ATOMIC_ACQUIRE);
	}
	return have < 2 ? really() : on_line(&points[have - 1], ns);
}

uint32_t gr_tsc_processor(void)
{
	uint32_t cpu = 0, node = 0;
	GR_RAW(SYS_getcpu, &cpu, &node, 0);
	return node << 12 | cpu; // as Linux sets IA32_TSC_AUX
}
