// The state of a program between two operations; see loop.h.
// Runs in: the engine's handlers, on their stack.
// May call: core.
// Owns: the list of what differs between a recording and its replay although nothing is wrong.
#include "loop.h"

#include <fcntl.h>
#include <ucontext.h>

#include "../../core/copy.h"
#include "../../core/nolibc.h"
#include "../../core/raw.h"
#include "../../digest/mask.h"
#include "../../heap/heap.h"
#include "../../heap/stack.h"
#include "../../replay/cancel.h"

#define PAGE 4096ULL
#define MOST (1ULL << 30) // a larger mapping is left out
#define EFLAGS_OF_DEBUGGING 0x10100ULL // RF and TF
#define RED_ZONE 128

extern const ptrdiff_t __rseq_offset __attribute__((weak)); // glibc 2.35

uint64_t gr_state_stack_top;

// ---------------------------------------------------------------- memory
static bool contains(const char *line, const char *word)
{
	size_t n = gr_strlen(word);
	for (; *line; line++)
		if (memcmp(line, word, n) == 0)
			return true;
	return false;
}

struct visit { uint64_t rsp; void (*each)(void *arg, uint64_t from, uint64_t to); void *arg; bool left_out; };

// Stacks of other threads are left out: what of them is dead the engine knows only while they stand at an operation.
static bool is_of_another(uint64_t from, uint64_t to)
{
	const struct gr_thread *t;
	for (uint32_t i = 0; i < GR_LIVE_THREADS && !gr_thread_untouched(t = gr_thread_block(i)); i++)
		if (t != gr_self && t->pub.index && gr_thread_lives(t) && t->fs_base >= from && t->fs_base < to)
			return gr_stack_is(from);
	return false;
}

// The main thread's stack, seen from another: from where it stands.
static uint64_t main_stands(uint64_t to)
{
	const struct gr_thread *t = gr_thread_by_index(0);
	return t ? t->pub.shown.rsp & ~7ULL : to;
}

// The loader counts its own time, and the engine is another in each mode.
static void visit_line(struct visit *visit, const char *line)
{
	uint64_t from = gr_hex(&line), to;
	line++;
	to = gr_hex(&line);
	if (from >= GR_HEAP_ADDR && from < GR_HEAP_ADDR + (uint64_t)GR_HEAPS * GR_HEAP_REGION) {
		gr_heap_ranges(from, to, visit->each, visit->arg);
		return;
	}
	if (line[1] != 'r' || line[2] != 'w' || (from >= GR_ZONE && from < GR_ZONE_END) || gr_in_engine(from) ||
	    gr_in_engine(to - 1) || contains(line, "/ld-linux"))
		return;
	if (to - from > MOST) {
		visit->left_out = true;
		return;
	}
	if (contains(line, "[stack]")) {
		if (visit->rsp >= from && visit->rsp < to)
			from = (visit->rsp - RED_ZONE) & ~7ULL;
		else if (gr_self->pub.index)
			from = main_stands(to);
		if (gr_state_stack_top > from && gr_state_stack_top < to)
			to = gr_state_stack_top;
	} else if (visit->rsp >= from && visit->rsp < to && gr_self->pub.index) {
		from = (visit->rsp - RED_ZONE) & ~7ULL; // another thread's stack is a mapping of its own
	} else if (is_of_another(from, to)) {
		return;
	}
	if (from < to)
		visit->each(visit->arg, from, to);
}

bool gr_state_ranges(struct gr_thread *self, const struct gr_context *at, void (*each)(void *arg, uint64_t from, uint64_t to),
		     void *arg)
{
	struct visit visit = {at->greg[REG_RSP], each, arg, false};
	char text[2048];
	size_t have = 0;
	(void)self;
	long fd = GR_RAW(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC);
	if (GR_IS_ERR(fd))
		return false;
	for (;;) {
		long n = GR_RAW(SYS_read, fd, text + have, sizeof text - 1 - have);
		if (n <= 0)
			break;
		have += n;
		text[have] = 0;
		size_t done = 0;
		for (size_t i = 0; i < have; i++) {
			if (text[i] != '\n')
				continue;
			text[i] = 0;
			visit_line(&visit, text + done);
			done = i + 1;
		}
		memmove(text, text + done, have - done);
		have -= done;
	}
	GR_RAW(SYS_close, fd);
	return !visit.left_out;
}

// Words about this very process: of the kernel, the list of robust mutexes that are held (the last one's, the first one's), and what
// the library notes while the thread waits: the descriptor of the main thread is not on a stack that is left out.
struct words { uint64_t addr, len; };
#define WORDS 5

static unsigned words_of(const struct gr_thread *t, struct words ret[WORDS])
{
	uint64_t waits[2];
	gr_cancel_words(t, waits);
	ret[0] = (struct words){(uint64_t)t->ctid, 4};
	ret[1] = (struct words){&__rseq_offset ? t->fs_base + __rseq_offset : 0, 32};
	ret[2] = (struct words){t->robust ? t->robust - 8 : 0, 16};
	ret[3] = (struct words){waits[0], 8};
	ret[4] = (struct words){waits[1], 8};
	return WORDS;
}

// In what stands from `from` to `to`, of which `copy` is one. False if there are none.
static bool hide(uint64_t *copy, uint64_t from, uint64_t to)
{
	struct words words[WORDS];
	const struct gr_thread *t;
	bool any = false;
	for (uint32_t i = 0; i < GR_LIVE_THREADS && !gr_thread_untouched(t = gr_thread_block(i)); i++)
		for (unsigned k = words_of(t, words); k--;)
			for (uint64_t word = words[k].addr & ~7ULL; word < words[k].addr + words[k].len; word += 8) {
				if (word < from || word >= to)
					continue;
				any = true;
				if (copy)
					copy[(word - from) / 8] = 0;
			}
	return any;
}

// INVARIANT(a-look-is-no-hit): while points are armed, memory is looked at by the kernel, or whoever watches who reads a place
// would be told of the engine.
uint64_t gr_state_page(uint64_t page, uint64_t from, uint64_t to)
{
	uint64_t copy[PAGE / 8] = {0};
	uint64_t a = page > from ? page : from, b = page + PAGE < to ? page + PAGE : to;
	if (!gr_copy_watched && !hide(NULL, a, b))
		return gr_hash(GR_HASH_SEED, (const void *)a, b - a);
	gr_peek(copy, a, b - a);
	hide(copy, a, b);
	return gr_hash(GR_HASH_SEED, copy, b - a);
}

// Without what a replay leaves otherwise in locks and the like.
static uint64_t masked_page(uint64_t page, uint64_t from, uint64_t to)
{
	uint8_t copy[PAGE] __attribute__((aligned(8))) = {0};
	uint64_t a = page > from ? page : from, b = page + PAGE < to ? page + PAGE : to;
	if (!gr_mask_only_primitives(page, NULL))
		return gr_state_page(page, from, to);
	gr_peek(copy + (a - page), a, b - a);
	gr_mask_only_primitives(page, copy);
	hide((uint64_t *)copy, page, page + PAGE);
	return gr_hash(GR_HASH_SEED, copy, sizeof copy);
}

struct digest { uint64_t hash; bool masked; };

static void add(void *arg, uint64_t from, uint64_t to)
{
	struct digest *digest = arg;
	if (!digest->masked)
		digest->hash = gr_hash_word(gr_hash_word(digest->hash, from), to);
	for (uint64_t page = from & ~(PAGE - 1); page < to; page += PAGE) {
		uint64_t start = page > from ? page : from, dead = digest->masked ? gr_stack_dead(start) : 0;
		if (dead >= page + PAGE)
			continue;
		start = dead > start ? dead : start;
		// INVARIANT(pages-not-mappings): which mappings the kernel makes one of is not the program's doing.
		if (digest->masked)
			digest->hash = gr_hash_word(digest->hash, start);
		uint64_t hash = (digest->masked ? masked_page : gr_state_page)(page, start, to);
		digest->hash = gr_hash_word(digest->hash, hash);
	}
}

// What functions left below the stack pointer that have returned, among it what the loader saved of vector registers that
// nobody had set.
static bool is_dead(uint64_t rsp, uint64_t addr)
{
	uint64_t lives = rsp - RED_ZONE;
	return addr < lives && lives - addr < GR_DEAD_STACK;
}

static uint64_t memory_of(struct gr_thread *self, const struct gr_context *at, const struct gr_state *state)
{
	struct digest digest = {GR_HASH_SEED, state->partial};
	uint64_t some = state->partial & ~GR_STATE_WHOLE;
	if (!state->partial || state->partial & GR_STATE_WHOLE)
		gr_state_ranges(self, at, add, &digest);
	for (uint64_t i = 0; i + 1 < some && i < GR_STATE_PAGES; i++) {
		uint64_t copy[PAGE / 8] = {0};
		gr_peek(copy, state->page[i], sizeof copy);
		for (unsigned w = 0; w < PAGE / 8; w++)
			if (state->words[i][w / 64] & 1ULL << w % 64 && !is_dead(at->greg[REG_RSP], state->page[i] + 8 * w))
				digest.hash = gr_hash_word(digest.hash, copy[w]);
	}
	return digest.hash;
}

// INVARIANT(rest-is-of-the-moment): which words count does not depend on where the thread is that is asked: a function deeper, it is in
// the same loop.
static uint64_t rest_of(const struct gr_state *state)
{
	uint64_t hash = GR_HASH_SEED, some = state->partial & ~GR_STATE_WHOLE;
	bool any = false;
	for (uint64_t i = 0; i + 1 < some && i < GR_STATE_PAGES; i++) {
		uint64_t copy[PAGE / 8] = {0};
		gr_peek(copy, state->page[i], sizeof copy);
		gr_mask_only_primitives(state->page[i], (uint8_t *)copy);
		hide(copy, state->page[i], state->page[i] + PAGE);
		for (unsigned w = 0; w < PAGE / 8; w++)
			if (state->resting[i][w / 64] & 1ULL << w % 64 && !is_dead(state->greg[REG_RSP], state->page[i] + 8 * w)) {
				hash = gr_hash_word(hash, copy[w]);
				any = true;
			}
	}
	return any ? hash | 1 : 0;
}

bool gr_state_rests(const struct gr_state *state)
{
	return !state->rest || rest_of(state) == state->rest;
}

// ---------------------------------------------------------------- registers
// The save area without its header: x87, SSE and AVX ...
#define AVX_END 832

static uint64_t narrow_of(const struct gr_context *at)
{
	const uint8_t *area = (const uint8_t *)at->fpstate;
	uint64_t hash = gr_hash(GR_HASH_SEED, area, 416), end = gr_frame_vectors() - 4;
	return gr_hash(hash, area + 576, (end < AVX_END ? end : AVX_END) - 576);
}

// ... and what came later.
static uint64_t wide_of(const struct gr_context *at)
{
	uint64_t end = gr_frame_vectors() - 4;
	return end > AVX_END ? gr_hash(GR_HASH_SEED, (const uint8_t *)at->fpstate + AVX_END, end - AVX_END) : 0;
}

static uint64_t flags_of(uint64_t eflags)
{
	return eflags & ~EFLAGS_OF_DEBUGGING;
}

void gr_state_take(struct gr_thread *self, const struct gr_context *at, struct gr_state *ret)
{
	memcpy(ret->greg, at->greg, sizeof ret->greg);
	ret->greg[REG_EFL] = flags_of(at->greg[REG_EFL]);
	ret->vectors = narrow_of(at);
	ret->wide = wide_of(at);
	ret->memory = memory_of(self, at, ret);
	ret->rest = rest_of(ret);
}

bool gr_state_pilot(const struct gr_context *at, uint64_t pilot, uint64_t *ret)
{
	if (pilot <= GR_STATE_REGISTERS - 2) {
		*ret = at->greg[pilot - 1];
		return true;
	}
	if (pilot <= GR_STATE_PILOTS) {
		memcpy(ret, (const char *)at->fpstate + 160 + 8 * (pilot - 1 - (GR_STATE_REGISTERS - 2)), sizeof *ret);
		return true;
	}
	*ret = 0;
	size_t size = pilot % 4 == GR_STATE_HALF ? sizeof(uint32_t) : sizeof *ret;
	return gr_peek(ret, pilot & ~3ULL, size) == size;
}

bool gr_state_is(struct gr_thread *self, const struct gr_context *at, const struct gr_state *state, uint32_t *looks)
{
	uint64_t value;
	for (int i = 0; i < REG_EFL; i++)
		if (at->greg[i] != state->greg[i])
			return false;
	if (flags_of(at->greg[REG_EFL]) != state->greg[REG_EFL])
		return false;
	if (state->pilot && (!gr_state_pilot(at, state->pilot, &value) || value != state->pilot_value))
		return false;
	++*looks;
	if (narrow_of(at) != state->vectors || (state->wide && wide_of(at) != state->wide))
		return false;
	return memory_of(self, at, state) == state->memory;
}
