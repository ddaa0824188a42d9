// What a recording keeps of a moment between two operations: looks at a thread that computes, some of its time apart. What rises or
// falls in all of them, and steadily, tells a replay how far it is: the pilot.
// Runs in: the engine's handlers, on their stack.
// May call: core, log.
// Owns: a scratch area for each thread.
#include <sys/mman.h>
#include <ucontext.h>

#include "../../core/copy.h"
#include "../../core/nolibc.h"
#include "../../core/raw.h"
#include "../../log/turn.h"
#include "loop.h"

#define PAGE 4096ULL
#define WORDS (PAGE / 8)
#define SCRATCH_SIZE 0x10000000ULL
#define LOOKS 12          // a word of noise rises in all of them once in many millions
#define LONGEST_STEP (1ULL << 60)
#define UNSTEADY 8        // times that the fastest step of a pilot may be faster than its slowest
#define CHANGED 64        // pages that are looked at
#define OWN_STACK 2       // of these: where the thread's stack pointer is, and the next
#define STEPS 3           // looks in which a pilot moved that rests in the others
#define RESTS 3           // looks in which a word did not move that rests
#define LOOK_RAN 200000   // ns that a thread ran between two looks: with the machine busy, less than passed

// One word over all looks. The rates are steps in 1024 ns.
struct word {
	uint64_t was, slowest, slow, fastest; // steps in its direction alone; the second slowest is slow
	uint8_t rises, falls, backs; // in how many looks; a step back is one against those before, or a very long one
	bool moved;
	uint8_t rests; // looks since then
};

struct scratch {
	uint32_t looks, changed, pages;
	struct word registers[GR_STATE_PILOTS];
	uint64_t page[CHANGED];
	struct word word[CHANGED][WORDS];
	struct word half[CHANGED][WORDS][2]; // of those that have moved: two variables may share a word
	uint64_t ran; // the thread's time at the end of the newest look
	uint64_t computed; // its time between looks
	uint64_t highest;  // of the stack pointers seen
	uint64_t hash[]; // of each page, in the order of the ranges
};

_Static_assert(GR_SCRATCH_ADDR + GR_LIVE_THREADS * SCRATCH_SIZE <= GR_ORIGIN_ADDR, "zone layout");

static struct scratch *scratch_of(struct gr_thread *self)
{
	uint64_t addr = GR_SCRATCH_ADDR + (uint64_t)self->block * SCRATCH_SIZE;
	if (!self->scratch)
		self->scratch = GR_RAW(SYS_mmap, addr, SCRATCH_SIZE, PROT_READ | PROT_WRITE,
				       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0) == (long)addr;
	return self->scratch ? (struct scratch *)addr : NULL;
}

// ---------------------------------------------------------------- words
static struct word word_of(uint64_t value)
{
	return (struct word){.was = value, .slowest = ~0ULL, .slow = ~0ULL};
}

// Noise wraps around. One that goes back seldom is that of an inner loop, which begins again.
static void compare(struct word *w, uint64_t now, uint64_t ran)
{
	int64_t step = (int64_t)(now - w->was);
	uint64_t size = step < 0 ? -(uint64_t)step : (uint64_t)step;
	uint64_t rate = (uint64_t)(((__uint128_t)size << 20) / (ran ? ran : 1));
	bool back = step < 0 ? w->rises > w->falls : w->falls > w->rises;
	w->moved |= step != 0;
	w->backs += step && (back || size >= LONGEST_STEP);
	w->rests = step ? 0 : w->rests + (w->rests < RESTS);
	w->was = now;
	w->rises += step > 0 && (size < LONGEST_STEP || back);
	w->falls += step < 0 && (size < LONGEST_STEP || back);
	if (back || !step)
		return;
	w->slow = rate < w->slowest ? w->slowest : rate < w->slow ? rate : w->slow;
	w->slowest = rate < w->slowest ? rate : w->slowest;
	w->fastest = rate > w->fastest ? rate : w->fastest;
}

// 4: it only rises or only falls, and steadily, as what counts does; 3: it only rises or falls; 2: the same, but it rests now and then,
// or begins again once; 1: nearly so, and steadily; 0: it is no pilot. One look may be too slow: a virtual machine that stands still
// counts that as the thread's time.
static unsigned quality(const struct word *w, uint32_t looks)
{
	uint32_t most = w->rises > w->falls ? w->rises : w->falls;
	bool steady = w->fastest / UNSTEADY <= w->slow;
	if (most == looks)
		return steady ? 4 : 3;
	if ((!w->backs && most >= STEPS) || (w->backs == 1 && most == looks - 1))
		return 2;
	return steady && most >= looks - looks / 3;
}

// Of the best the one that is the fastest by `margin`, so that the distance is known finely.
static void consider(const struct word *w, uint64_t pilot, uint32_t looks, uint64_t margin, struct gr_state *ret, uint64_t best[2])
{
	unsigned good = quality(w, looks);
	if (good < best[1] || !good || (good == best[1] && w->fastest / margin <= best[0]))
		return;
	best[0] = w->fastest;
	best[1] = good;
	ret->pilot = pilot;
	ret->pilot_value = w->was;
	ret->falls = w->falls > w->rises;
}

// Two variables in one word: the upper one would pass for the word, however it moves from pass to pass. One that counts is the steadier:
// what the looks are apart is the same for both.
static unsigned steadier(const struct word half[2], uint32_t looks)
{
	unsigned low = quality(&half[0], looks), high = quality(&half[1], looks);
	if (low != high)
		return high > low;
	return (__uint128_t)half[1].fastest * half[0].slow < (__uint128_t)half[0].fastest * half[1].slow;
}

// A register that holds a copy of a word holds something else in another part of the loop: the word is the better pilot.
static void choose(const struct scratch *s, struct gr_state *ret)
{
	uint64_t best[2] = {0, 0};
	uint32_t looks = s->looks - 2; // in which words were compared
	for (uint32_t i = 0; i < s->changed; i++)
		for (uint32_t w = 0; w < WORDS; w++) {
			uint64_t addr = s->page[i] + 8 * w;
			const struct word *half = s->half[i][w];
			unsigned which = half[1].moved && quality(&half[0], looks) >= 2 ? steadier(half, looks) : 2;
			if (which < 2)
				consider(&half[which], addr + 4 * which + GR_STATE_HALF, looks, 1, ret, best);
			else
				consider(&s->word[i][w], addr, looks, 1, ret, best);
		}
	for (uint64_t i = 1; i <= GR_STATE_PILOTS; i++)
		if (i != REG_RSP + 1)
			consider(&s->registers[i - 1], i, looks, 2, ret, best);
}

// ---------------------------------------------------------------- pages
struct pass { struct scratch *s; uint32_t at; };

static void first_look(void *arg, uint64_t from, uint64_t to)
{
	struct pass *pass = arg;
	uint32_t most = (SCRATCH_SIZE - sizeof *pass->s) / 8;
	for (uint64_t page = from & ~(PAGE - 1); page < to && pass->at < most; page += PAGE)
		pass->s->hash[pass->at++] = gr_state_page(page, from, to);
}

static uint64_t half_of(uint64_t word, unsigned which)
{
	return (uint32_t)(word >> 32 * which);
}

static void add_page(struct scratch *s, uint64_t page)
{
	uint64_t copy[WORDS] = {0};
	gr_peek(copy, page, sizeof copy);
	s->page[s->changed] = page;
	for (uint32_t w = 0; w < WORDS; w++) {
		s->word[s->changed][w] = word_of(copy[w]);
		for (unsigned h = 0; h < 2; h++)
			s->half[s->changed][w][h] = word_of(half_of(copy[w], h));
	}
	s->changed++;
}

static void second_look(void *arg, uint64_t from, uint64_t to)
{
	struct pass *pass = arg;
	struct scratch *s = pass->s;
	for (uint64_t page = from & ~(PAGE - 1); page < to && pass->at < s->pages; page += PAGE) {
		bool known = page == s->page[0] || (s->changed > 1 && page == s->page[1]);
		if (s->hash[pass->at++] != gr_state_page(page, from, to) && !known && s->changed < CHANGED)
			add_page(s, page);
	}
}

static void later_look(struct scratch *s, const struct gr_context *at, uint64_t ran)
{
	uint64_t value;
	for (uint64_t i = 1; i <= GR_STATE_PILOTS; i++)
		if (gr_state_pilot(at, i, &value))
			compare(&s->registers[i - 1], value, ran);
	for (uint32_t i = 0; i < s->changed; i++) {
		uint64_t copy[WORDS] = {0};
		gr_peek(copy, s->page[i], sizeof copy);
		for (uint32_t w = 0; w < WORDS; w++) {
			compare(&s->word[i][w], copy[w], ran);
			for (unsigned h = 0; s->word[i][w].moved && h < 2; h++)
				compare(&s->half[i][w][h], half_of(copy[w], h), ran);
		}
	}
}

// What stands above is the C library's and the kernel's.
static uint64_t stack_end(const struct gr_thread *self)
{
	return self->pub.index ? self->fs_base : gr_state_stack_top;
}

// Where a loop of plain code counts, and the last of all addresses: with many pages that change it would never be looked at. What is
// not there is not touched: a debugger would see the fault.
static void begin_words(struct gr_thread *self, struct scratch *s, const struct gr_context *at)
{
	uint64_t value, end = stack_end(self);
	s->changed = 0;
	for (uint64_t i = 1; i <= GR_STATE_PILOTS; i++)
		s->registers[i - 1] = word_of(gr_state_pilot(at, i, &value) ? value : 0);
	for (uint64_t page = at->greg[REG_RSP] & ~(PAGE - 1); s->changed < OWN_STACK && (page < end || !s->changed); page += PAGE)
		add_page(s, page);
}

// ---------------------------------------------------------------- looks
// A breakpoint does not stop at each round of a `rep`.
static bool is_repeating(uint64_t rip)
{
	uint8_t bytes[5] = {0};
	bool repeats = false;
	gr_peek(bytes, rip, sizeof bytes);
	for (unsigned i = 0; i < sizeof bytes; i++) {
		uint8_t byte = bytes[i];
		if (byte == 0xf2 || byte == 0xf3)
			repeats = true;
		else if (byte != 0x66 && byte != 0x67 && (byte & 0xf0) != 0x40)
			return repeats && ((byte >= 0x6c && byte <= 0x6f) || (byte >= 0xa4 && byte <= 0xa7) || (byte >= 0xaa && byte <= 0xaf));
	}
	return repeats;
}

static bool is_dead_at_times(const struct scratch *s, uint64_t addr)
{
	return addr < s->highest && s->highest - addr < GR_DEAD_STACK;
}

// Which words count in any case: those that were seen to change; and which rest.
static void describe(const struct gr_thread *self, const struct scratch *s, struct gr_state *ret)
{
	uint64_t end = stack_end(self);
	uint32_t n = s->changed < GR_STATE_PAGES ? s->changed : GR_STATE_PAGES;
	for (uint32_t i = 0; i < n; i++) {
		ret->page[i] = s->page[i];
		for (uint32_t w = 0; w < WORDS; w++) {
			ret->words[i][w / 64] |= (uint64_t)s->word[i][w].moved << w % 64;
			bool own = (s->page[i] + 8 * w < end || s->page[i] > end) && !is_dead_at_times(s, s->page[i] + 8 * w);
			ret->resting[i][w / 64] |= (uint64_t)(own && s->word[i][w].rests == RESTS) << w % 64;
		}
	}
	ret->partial = n + 1;
}

// A thread that did not run since the look before stands where it stood, and its pilot would be taken for a word that rests.
bool gr_loop_look(struct gr_thread *self, const struct gr_context *at, struct gr_state *ret)
{
	struct scratch *s = scratch_of(self);
	struct pass pass = {s, 0};
	uint64_t time = gr_loop_time();
	if (!s || (s->looks && time - s->ran < LOOK_RAN))
		return false;
	switch (s->looks) {
	case 0:
		gr_state_ranges(self, at, first_look, &pass);
		s->pages = pass.at;
		break;
	case 1:
		begin_words(self, s, at);
		gr_state_ranges(self, at, second_look, &pass);
		break;
	default:
		later_look(s, at, time - s->ran);
	}
	s->computed = s->looks ? s->computed + time - s->ran : 0;
	s->highest = s->looks++ && s->highest > at->greg[REG_RSP] ? s->highest : at->greg[REG_RSP];
	s->ran = gr_loop_time();
	if (s->looks < LOOKS || is_repeating(at->greg[REG_RIP]))
		return false;
	memset(ret, 0, sizeof *ret);
	choose(s, ret);
	describe(self, s, ret);
	if (gr_turn_on || gr_thread_is_alone(self))
		ret->partial |= GR_STATE_WHOLE;
	gr_state_take(self, at, ret);
	return true;
}

uint64_t gr_loop_computed(struct gr_thread *self)
{
	return self->scratch ? scratch_of(self)->computed : 0;
}

void gr_loop_forget(struct gr_thread *self)
{
	if (self->scratch)
		scratch_of(self)->looks = 0;
}
