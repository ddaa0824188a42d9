// Memory and text without libc: what libc offers here uses vector registers that a system call must keep.
// Runs in: everywhere in the engine.
// May call: nothing.
// Owns: the engine's own memcpy, memset, memmove, memcmp, to which the compiler's calls bind too.
#pragma once

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

void *memcpy(void *dst, const void *src, size_t n);
void *memset(void *dst, int c, size_t n);
void *memmove(void *dst, const void *src, size_t n);
int memcmp(const void *a, const void *b, size_t n);

size_t gr_strlen(const char *s);
int gr_strcmp(const char *a, const char *b);

// The number that begins there in small hexadecimal digits; `p` is left behind them.
uint64_t gr_hex(const char **p);

// Text into a bounded buffer; understands %s %d %u %x (all 64 bits wide) and %%.
void gr_format(char *dst, size_t size, const char *format, ...);

#define GR_HASH_SEED 0x9e3779b97f4a7c15
uint64_t gr_hash(uint64_t hash, const void *data, size_t n);
// INVARIANT(high-bits-count): callers fold the result to 32 bits by `hash ^ hash >> 32`. A shift by 32 here would be undone
// by that, and the upper half of the last word would not be in the check at all.
static inline uint64_t gr_hash_word(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * 0xff51afd7ed558ccd;
	return hash ^ hash >> 29;
}
