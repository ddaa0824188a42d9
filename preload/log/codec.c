// The encoding of one event: to bytes and back.
// Runs in: application threads (encode; decode on replay), Python through cffi.
// May call: nothing; freestanding, general registers only, no global state.
// Owns: the bytes of an event (docs/demo-format.md says the same in words).
//
//	+------+------+--------------+ +----------+----------+----------+-----+----------+--------+----------+ +--------+
//	| kind | mask | stamp - last | | object   | result   | check    | nr  | flags    | time   | len      | | data   |
//	| u8   | u8   | varint       | | varint   | zigzag   | 4 bytes  | var | u8       | varint | varint   | | len    |
//	+------+------+--------------+ +----------+----------+----------+-----+----------+--------+----------+ +--------+
//	                         mask:   bit 0      bit 1      bit 2      3     bit 4      bit 6    bit 5
//
// A run (kind RUN) has no mask: kind, stamp - last (which may be 0), count, 2 bytes of hash.
//
// A field that is 0 is absent and its bit is clear; bit 7 is clear. Varints are little-endian base 128 in
// their shortest form, so one event has one encoding. `check` is a hash: as a varint it would only grow.
#include "put.h"

enum {
#define OP(name, ...) GR_KIND_##name,
#include "../tables/ops.def"
#undef OP
	GR_KIND_COUNT
};

// Returns the byte behind the varint, or NULL when it is cut off, overlong or more than 64 bits.
static const uint8_t *gr_varint_long(const uint8_t *src, const uint8_t *end, uint64_t *ret)
{
	uint64_t value = 0;
	for (unsigned shift = 0; src < end && shift < 64; shift += 7) {
		uint8_t byte = *src++;
		value |= (uint64_t)(byte & 0x7f) << shift;
		if (byte & 0x80)
			continue;
		if (byte == 0 && shift > 0)
			return NULL; // a shorter form exists
		if (shift == 63 && byte > 1)
			return NULL;
		*ret = value;
		return src;
	}
	return NULL;
}

// Most are of one byte.
static inline const uint8_t *gr_varint_get(const uint8_t *src, const uint8_t *end, uint64_t *ret)
{
	if (src < end && *src < 0x80) {
		*ret = *src;
		return src + 1;
	}
	return gr_varint_long(src, end, ret);
}

uint64_t gr_event_ops(const struct gr_event *ev)
{
	return ev->kind == GR_KIND_RUN ? ev->object : 1;
}

_Bool gr_event_may_miss(const struct gr_event *ev)
{
	switch (ev->kind) {
	case GR_KIND_BLOCK:
	case GR_KIND_FUTEX_WAIT:
	case GR_KIND_FUTEX_WAKE:
	case GR_KIND_YIELD:
		return 1;
	case GR_KIND_ONCE:
		return ev->result == 0;
	}
	return 0;
}

static size_t gr_run_encode(uint8_t *dst, const struct gr_event *ev, uint64_t *last_stamp)
{
	uint8_t *p = dst;
	*p++ = ev->kind;
	p = gr_varint_put(p, ev->stamp - *last_stamp);
	p = gr_varint_put(p, ev->object);
	*p++ = (uint8_t)ev->check;
	*p++ = (uint8_t)(ev->check >> 8);
	*last_stamp = ev->stamp;
	return (size_t)(p - dst);
}

static size_t gr_run_decode(const uint8_t *src, const uint8_t *end, struct gr_event *ret, uint64_t *last_stamp)
{
	uint64_t delta, count;
	const uint8_t *p = gr_varint_get(src + 1, end, &delta);
	if (!p || !(p = gr_varint_get(p, end, &count)) || count == 0 || count > GR_RUN_LIMIT || end - p < 2 ||
	    *last_stamp + delta < delta)
		return 0;
	*last_stamp += delta;
	*ret = (struct gr_event){ .kind = GR_KIND_RUN, .stamp = *last_stamp, .object = count, .check = p[0] | (uint32_t)p[1] << 8 };
	return (size_t)(p + 2 - src);
}

size_t gr_event_encode(uint8_t *dst, const struct gr_event *ev, uint64_t *last_stamp)
{
	if (ev->kind == GR_KIND_RUN)
		return gr_run_encode(dst, ev, last_stamp);
	uint8_t *p = gr_event_put(dst, ev, last_stamp);
	if (ev->len) {
		const uint8_t *from = ev->data;
		size_t n = ev->len;
		// A loop would become a call of memcpy, which the engine does not have.
		if (from)
			__asm__ volatile("rep movsb" : "+D"(p), "+S"(from), "+c"(n) : : "memory");
		else
			p += n; // the caller gathers the data from several places
	}
	return (size_t)(p - dst);
}

size_t gr_event_decode(const uint8_t *src, size_t avail, struct gr_event *ret, uint64_t *last_stamp)
{
	const uint8_t *p = src, *end = src + avail;
	if (avail < 3)
		return 0;
	if (*p == GR_KIND_RUN)
		return gr_run_decode(src, end, ret, last_stamp);
	uint8_t kind = *p++, mask = *p++;
	if (kind == GR_KIND_NONE || kind >= GR_KIND_COUNT || mask & ~HAS_ALL)
		return 0;
	uint64_t delta, object = 0, result = 0, nr = 0, time = 0, len = 0;
	uint32_t check = 0;
	uint8_t flags = 0;
	if (!(p = gr_varint_get(p, end, &delta)) || delta == 0 || *last_stamp + delta < delta)
		return 0;
	if (mask & HAS_OBJECT && (!(p = gr_varint_get(p, end, &object)) || object == 0))
		return 0;
	if (mask & HAS_RESULT && (!(p = gr_varint_get(p, end, &result)) || result == 0))
		return 0;
	if (mask & HAS_CHECK) {
		if (end - p < 4)
			return 0;
		check = (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
		if (check == 0)
			return 0;
		p += 4;
	}
	if (mask & HAS_NR && (!(p = gr_varint_get(p, end, &nr)) || nr == 0 || nr > UINT16_MAX))
		return 0;
	if (mask & HAS_FLAGS && (p == end || (flags = *p++) == 0))
		return 0;
	if (mask & HAS_TIME && (!(p = gr_varint_get(p, end, &time)) || time == 0))
		return 0;
	if (mask & HAS_DATA &&
	    (!(p = gr_varint_get(p, end, &len)) || len == 0 || len > UINT32_MAX || len > (uint64_t)(end - p)))
		return 0;

	*last_stamp += delta;
	ret->stamp = *last_stamp;
	ret->time = time;
	ret->object = object;
	ret->result = (int64_t)(result >> 1 ^ -(result & 1));
	ret->check = check;
	ret->len = (uint32_t)len;
	ret->nr = (uint16_t)nr;
	ret->kind = kind;
	ret->flags = flags;
	ret->data = len ? p : NULL;
	return (size_t)(p - src) + len;
}
