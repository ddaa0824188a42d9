// Feeds the parsers that controllers have in C with bent inputs in blocks of exact size, for the sanitizers to watch: those of
// events, of batches, the merge, that of ELF files, the length decoder.
// Runs in: a test program of its own (tests/fuzz/test_native_fuzz.py builds and runs it).
// May call: libc, codec.c, merge.c, atomics.c, decode.c.
// Owns: the ways in which inputs are bent; which of them are kept to be bent further.
//
//	native_fuzz SEED ROUNDS FILE...
//
// The first byte of a FILE names the parser, the rest is an input. INVARIANT(the-seed-repeats-it): what is drawn depends on the seed,
// the files and what was run before, so the same command does the same. The parsers are built with -fsanitize-coverage=trace-pc:
// an input that goes a step from one place to another that none went before is kept.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../preload/log/merge.h"
#include "../../preload/patch/atomics.h"
#include "../../preload/patch/decode.h"

enum {
#define OP(name, ...) OP_##name,
#include "../../preload/tables/ops.def"
#undef OP
	RUN = OP_RUN,
};

void __sanitizer_set_death_callback(void (*callback)(void)); // of gcc's and clang's runtime; gcc 12 has no header for it

// ---------------------------------------------------------------- what is drawn
static uint64_t rng_state;

static uint64_t rng(void) // splitmix64
{
	uint64_t x = rng_state += 0x9e3779b97f4a7c15;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

// ---------------------------------------------------------------- where the parsers have been
static uint8_t been[1 << 16];
static unsigned steps;

void __sanitizer_cov_trace_pc(void);
void __sanitizer_cov_trace_pc(void)
{
	static uint64_t before;
	uint64_t at = (uint64_t)__builtin_return_address(0) - (uint64_t)__sanitizer_cov_trace_pc; // the same wherever it is loaded
	uint8_t *place = &been[((at ^ before << 1) * 0x9e3779b97f4a7c15) >> 48];
	before = at;
	steps += !*place;
	*place = 1;
}

// ---------------------------------------------------------------- what went wrong
struct input { uint8_t *bytes; size_t size; };

static struct { unsigned parser; struct input input; unsigned long round, seed; } now;

static void died(void)
{
	fprintf(stderr, "seed %lu, round %lu, parser %u, %zu bytes:", now.seed, now.round, now.parser, now.input.size);
	for (size_t i = 0; i < now.input.size; i++)
		fprintf(stderr, "%s%02x", i % 32 ? "" : "\n", now.input.bytes[i]);
	fprintf(stderr, "\n");
}

// What a sanitizer cannot know.
static void check(bool fine)
{
	if (fine)
		return;
	died();
	exit(1);
}

// ---------------------------------------------------------------- the parsers
#define MOST 4096 // bytes of an input

static void check_events(const uint8_t *src, size_t size)
{
	struct gr_event rows[16], ev;
	uint8_t again[MOST];
	uint64_t last = 0, before = 0;
	size_t used = 0, at = 0;
	size_t n = gr_batch_decode(src, size, rows, 16, SIZE_MAX, &last, &used);
	for (size_t i = 0; i < n; i++) {
		uint64_t stamp = before;
		size_t took = gr_event_decode(src + at, size - at, &ev, &stamp);
		check(took && ev.stamp == rows[i].stamp);
		check(gr_event_encode(again, &ev, &before) == took && !memcmp(again, src + at, took));
		at += took;
	}
	check(at == used && before == last);
	struct gr_span span;
	gr_span_scan(src, size, SIZE_MAX, 0, &span);
	check(span.bytes <= size && span.events <= (size / 3 + 1) * GR_RUN_LIMIT);
	gr_span_until(src, size, OP_SYS_END, 0, &span);
	struct gr_tail tail = { 0 };
	uint64_t looked = gr_tail_scan(src, size, 0, &tail);
	check(looked <= size && tail.births <= GR_BIRTHS);
}

#define THREADS 5

// The input begins with a length for each thread.
static void check_merge(const uint8_t *src, size_t size)
{
	uint16_t lengths[THREADS] = { 0 };
	struct input stream[THREADS];
	if (size < sizeof lengths)
		return;
	memcpy(lengths, src, sizeof lengths);
	src += sizeof lengths;
	size -= sizeof lengths;
	for (int i = 0; i < THREADS; i++) {
		size_t n = lengths[i] < size ? lengths[i] : size;
		stream[i] = (struct input){ malloc(n), n };
		if (n)
			memcpy(stream[i].bytes, src, n);
		src += n;
		size -= n;
	}
	struct gr_merge *merge = gr_merge_new(THREADS);
	struct gr_run runs[8];
	size_t count = 0;
	uint64_t ticks = 0, bytes = 0, positions[THREADS], sum = 0, base = 0;
	unsigned fed[THREADS] = { 0 };
	if (rng() % 4 == 0)
		gr_merge_follow(merge, 1);
	for (int times = 0; times < 2000; times++) {
		enum gr_merge_state state = gr_merge_step(merge, runs, 8, &count, &ticks, ticks + 1 + rng() % 9, &bytes, bytes + 1 + rng() % 99);
		uint32_t thread = gr_merge_needs(merge);
		if (state == GR_MERGE_DONE || state == GR_MERGE_BAD || state == GR_MERGE_GAP)
			break;
		if (state == GR_MERGE_NEED) {
			gr_merge_feed(merge, (thread + 1) % THREADS, stream[0].bytes, stream[0].size, 0); // not its turn: ignored
			gr_merge_feed(merge, thread, stream[thread].bytes, fed[thread] < 2 ? stream[thread].size : 0, fed[thread] ? rng() % 2000 : 0);
			fed[thread]++;
		} else {
			count = 0;
		}
	}
	gr_merge_positions(merge, positions);
	for (int i = 0; i < THREADS; i++) {
		sum += positions[i];
		check(!fed[i] || gr_merge_left(merge, i, &base) <= stream[i].size);
	}
	check(sum == ticks);
	gr_merge_free(merge);
	for (int i = 0; i < THREADS; i++)
		free(stream[i].bytes);
}

static void check_elf(const uint8_t *src, size_t size)
{
	struct gr_atomics found;
	gr_atomics_find(src, size, &found);
	check(!found.loader[sizeof found.loader - 1] && found.atomics <= 100 && found.more <= 1);
}

static void check_code(const uint8_t *src, size_t size)
{
	struct gr_insn insn;
	for (size_t at = 0; at < size; at++)
		check(!gr_decode(src + at, size - at, &insn) || (insn.length && insn.length <= 15 && insn.length <= size - at));
}

static void (*const parsers[])(const uint8_t *, size_t) = { check_events, check_merge, check_elf, check_code };
#define PARSERS (sizeof parsers / sizeof *parsers)

// ---------------------------------------------------------------- inputs
#define KEPT 2000 // of each parser

static struct input kept[PARSERS][KEPT];
static unsigned keeps[PARSERS];

static void keep(unsigned parser, const uint8_t *bytes, size_t size)
{
	struct input *place = &kept[parser][keeps[parser] < KEPT ? keeps[parser]++ : rng() % KEPT];
	free(place->bytes);
	*place = (struct input){ malloc(size + 1), size };
	if (size)
		memcpy(place->bytes, bytes, size);
}

static void run(unsigned parser, const uint8_t *bytes, size_t size)
{
	unsigned before = steps;
	now.parser = parser;
	now.input = (struct input){ malloc(size), size };
	if (size)
		memcpy(now.input.bytes, bytes, size);
	parsers[parser](now.input.bytes, size);
	free(now.input.bytes);
	if (steps > before)
		keep(parser, bytes, size);
}

// Bytes that are nearly events: valid ones with some of their bytes changed.
static size_t make_events(uint8_t *dst, size_t room)
{
	uint64_t last = rng() % 4 ? rng() % 1000 : UINT64_MAX - rng() % 100;
	size_t size = 0;
	uint8_t data[64];
	while (room - size >= GR_EVENT_MAX_HEAD + sizeof data && rng() % 8) {
		struct gr_event ev = { .stamp = last + 1 + rng() % 3, .kind = (uint8_t)(1 + rng() % 12), .data = data };
		for (size_t i = 0; i < sizeof data; i++)
			data[i] = (uint8_t)rng();
		if (rng() % 2)
			ev.object = rng() >> rng() % 64;
		if (rng() % 2)
			ev.result = (int64_t)rng() >> rng() % 64;
		if (rng() % 2)
			ev.check = (uint32_t)rng();
		if (rng() % 2)
			ev.len = (uint32_t)(rng() % sizeof data);
		ev.nr = (uint16_t)(rng() % 3 ? 0 : rng());
		ev.flags = (uint8_t)(rng() % 3 ? 0 : rng());
		if (rng() % 8 == 0)
			ev = (struct gr_event){ .kind = RUN, .stamp = last + rng() % 2, .object = 1 + rng() % GR_RUN_LIMIT, .check = rng() & 0xffff };
		size += gr_event_encode(dst + size, &ev, &last);
	}
	return rng() % 3 ? size : size ? rng() % size : 0;
}

// ---------------------------------------------------------------- bending
static void put_number(uint8_t *bytes, size_t size)
{
	static const uint64_t numbers[] = { 0, 1, 2, 12, 127, 128, 255, 256, 0xffff, 1 << 16, 1u << 31, UINT32_MAX, 1ULL << 63, UINT64_MAX };
	uint64_t value = rng() % 4 ? numbers[rng() % (sizeof numbers / sizeof *numbers)] : size - rng() % 4;
	size_t width = 1u << rng() % 4;
	value += rng() % 3 == 0 ? rng() % 16 - 8 : 0;
	if (width <= size)
		memcpy(bytes + rng() % (size - width + 1), &value, width);
}

static size_t bend(unsigned parser, uint8_t *bytes, size_t size)
{
	const struct input *other = &kept[parser][rng() % keeps[parser]];
	size_t at = size ? rng() % size : 0, n = 1 + rng() % 16;
	switch (rng() % 7) {
	case 0:
		if (size)
			bytes[at] ^= (uint8_t)(1 << rng() % 8);
		break;
	case 1:
		if (size)
			bytes[at] = (uint8_t)rng();
		break;
	case 2:
		put_number(bytes, size);
		break;
	case 3: // cut off
		size = at;
		break;
	case 4: // bytes go missing
		n = n < size - at ? n : size - at;
		memmove(bytes + at, bytes + at + n, size - at - n);
		size -= n;
		break;
	case 5: // bytes stand twice
		n = n < size - at ? n : size - at;
		if (size + n <= MOST) {
			memmove(bytes + at + n, bytes + at, size - at);
			size += n;
		}
		break;
	default: // the end of another
		if (other->size > at) {
			memcpy(bytes + at, other->bytes + at, other->size - at);
			size = other->size;
		}
	}
	return size;
}

static bool read_files(char **names)
{
	uint8_t bytes[1 + MOST];
	for (; *names; names++) {
		FILE *file = fopen(*names, "rb");
		size_t size = file ? fread(bytes, 1, sizeof bytes, file) : 0;
		if (!size || bytes[0] >= PARSERS)
			return false;
		fclose(file);
		run(bytes[0], bytes + 1, size - 1);
		keep(bytes[0], bytes + 1, size - 1);
	}
	return true;
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	now.seed = rng_state = strtoul(argv[1], NULL, 0);
	unsigned long rounds = strtoul(argv[2], NULL, 0);
	uint8_t bytes[MOST];
	__sanitizer_set_death_callback(died);
	for (unsigned parser = 0; parser < PARSERS; parser++)
		keep(parser, NULL, 0);
	if (!read_files(argv + 3))
		return 2;
	for (now.round = 0; now.round < rounds; now.round++) {
		unsigned parser = (unsigned)(rng() % PARSERS);
		const struct input *from = &kept[parser][rng() % keeps[parser]];
		size_t size = from->size;
		if (size)
			memcpy(bytes, from->bytes, size);
		if (parser == 0 && rng() % 4 == 0)
			size = make_events(bytes, 1024);
		for (unsigned times = (unsigned)(rng() % 5); times > 0; times--)
			size = bend(parser, bytes, size);
		run(parser, bytes, size);
	}
	for (unsigned parser = 0; parser < PARSERS; parser++)
		printf("%u ", keeps[parser]);
	printf("%u\n", steps);
	for (unsigned parser = 0; parser < PARSERS; parser++)
		for (unsigned i = 0; i < keeps[parser]; i++)
			free(kept[parser][i].bytes);
	return 0;
}
