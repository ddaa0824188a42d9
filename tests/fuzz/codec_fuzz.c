// Feeds the decoder, the batches and the merge with random bytes in blocks of exact size, for the sanitizers to watch.
// Runs in: a test program of its own (tests/fuzz/test_codec_fuzz.py builds and runs it).
// May call: libc, codec.c, merge.c.
// Owns: nothing.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../preload/log/merge.h"

enum {
#define OP(name, ...) OP_##name,
#include "../../preload/tables/ops.def"
#undef OP
	RUN = OP_RUN,
};

static uint64_t rng_state = 88172645463325252u;

static uint64_t rng(void)
{
	rng_state ^= rng_state << 13;
	rng_state ^= rng_state >> 7;
	return rng_state ^= rng_state << 17;
}

// Bytes that are nearly events: valid events with some of their bytes changed.
static size_t make_bytes(uint8_t *dst, size_t room)
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
	if (rng() % 3 == 0)
		for (size_t i = size ? rng() % 4 : 0; i > 0; i--)
			dst[rng() % size] = (uint8_t)rng();
	return rng() % 3 ? size : size ? rng() % size : 0;
}

static void check_decoder(const uint8_t *src, size_t size)
{
	struct gr_event rows[16], ev;
	uint8_t again[1024];
	uint64_t last = 0, before = 0;
	size_t used = 0, at = 0;
	size_t n = gr_batch_decode(src, size, rows, 16, SIZE_MAX, &last, &used);
	for (size_t i = 0; i < n; i++) {
		uint64_t stamp = before;
		size_t took = gr_event_decode(src + at, size - at, &ev, &stamp);
		if (!took || ev.stamp != rows[i].stamp || gr_event_encode(again, &ev, &before) != took || memcmp(again, src + at, took))
			abort();
		at += took;
	}
	if (at != used || before != last)
		abort();
	struct gr_span span;
	gr_span_scan(src, size, SIZE_MAX, 0, &span);
	if (span.bytes > size || span.events > (size / 3 + 1) * GR_RUN_LIMIT)
		abort();
}

#define THREADS 5

static void check_merge(uint8_t *stream[THREADS], const size_t size[THREADS])
{
	struct gr_merge *merge = gr_merge_new(THREADS);
	struct gr_run runs[8];
	size_t count = 0;
	uint64_t ticks = 0, bytes = 0, positions[THREADS], sum = 0;
	unsigned fed[THREADS] = { 0 };
	for (int steps = 0; steps < 10000; steps++) {
		enum gr_merge_state state = gr_merge_step(merge, runs, 8, &count, &ticks, ticks + 1 + rng() % 9, &bytes, bytes + 1 + rng() % 99);
		uint32_t thread = gr_merge_needs(merge);
		if (state == GR_MERGE_DONE || state == GR_MERGE_BAD)
			break;
		if (state == GR_MERGE_NEED) {
			gr_merge_feed(merge, (thread + 1) % THREADS, stream[0], size[0], 0); // not its turn: ignored
			gr_merge_feed(merge, thread, stream[thread], fed[thread] < 2 ? size[thread] : 0, fed[thread] ? rng() % 2000 : 0);
			fed[thread]++;
		} else {
			count = 0;
		}
	}
	gr_merge_positions(merge, positions);
	for (int i = 0; i < THREADS; i++)
		sum += positions[i];
	if (sum != ticks)
		abort();
	gr_merge_free(merge);
}

int main(int argc, char **argv)
{
	long budget = argc > 1 ? atol(argv[1]) : 100000;
	uint8_t scratch[1024];
	for (long i = 0; i < budget; i++) {
		uint8_t *stream[THREADS];
		size_t size[THREADS];
		for (int t = 0; t < THREADS; t++) {
			size[t] = make_bytes(scratch, sizeof scratch);
			stream[t] = malloc(size[t]);
			if (size[t])
				memcpy(stream[t], scratch, size[t]);
			check_decoder(stream[t], size[t]);
		}
		check_merge(stream, size);
		for (int t = 0; t < THREADS; t++)
			free(stream[t]);
	}
	printf("%ld\n", budget);
	return 0;
}
