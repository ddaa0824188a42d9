// The bytes of an event, written; codec.c draws them.
// Runs in: application threads, Python through cffi.
// May call: nothing; no libc, no allocation, no global state.
// Owns: the encoding, inline: where a caller knows some fields, the compiler leaves out the others.
#pragma once

#include "codec.h"

enum { HAS_OBJECT = 1, HAS_RESULT = 2, HAS_CHECK = 4, HAS_NR = 8, HAS_FLAGS = 16, HAS_DATA = 32, HAS_TIME = 64,
       HAS_ALL = 127 };

static inline __attribute__((always_inline)) uint8_t *gr_varint_put(uint8_t *dst, uint64_t value)
{
	while (value >= 0x80) {
		*dst++ = (uint8_t)(value | 0x80);
		value >>= 7;
	}
	*dst++ = (uint8_t)value;
	return dst;
}

// As gr_event_encode, up to the data, for which room is left.
static inline __attribute__((always_inline)) uint8_t *gr_event_put(uint8_t *dst, const struct gr_event *ev, uint64_t *last_stamp)
{
	uint8_t mask = (ev->object ? HAS_OBJECT : 0) | (ev->result ? HAS_RESULT : 0) | (ev->check ? HAS_CHECK : 0) |
	               (ev->nr ? HAS_NR : 0) | (ev->flags ? HAS_FLAGS : 0) | (ev->len ? HAS_DATA : 0) |
	               (ev->time ? HAS_TIME : 0);
	uint8_t *p = dst;
	*p++ = ev->kind;
	*p++ = mask;
	p = gr_varint_put(p, ev->stamp - *last_stamp);
	*last_stamp = ev->stamp;
	if (mask & HAS_OBJECT)
		p = gr_varint_put(p, ev->object);
	if (mask & HAS_RESULT)
		p = gr_varint_put(p, (uint64_t)ev->result << 1 ^ (uint64_t)(ev->result >> 63));
	if (mask & HAS_CHECK) {
		__builtin_memcpy(p, &ev->check, 4); // little-endian, as the machine is
		p += 4;
	}
	if (mask & HAS_NR)
		p = gr_varint_put(p, ev->nr);
	if (mask & HAS_FLAGS)
		*p++ = ev->flags;
	if (mask & HAS_TIME)
		p = gr_varint_put(p, ev->time);
	if (mask & HAS_DATA)
		p = gr_varint_put(p, ev->len);
	return p;
}
