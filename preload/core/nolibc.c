// Memory and text without libc; see nolibc.h.
// Runs in: everywhere in the engine.
// May call: nothing.
// Owns: nothing that lives.
#include "nolibc.h"

#define SMALL 256 // below, starting a string instruction costs more than the copy
// Or the compiler makes a call of memcpy of the loop in memcpy.
#define HIDDEN __attribute__((visibility("hidden"), optimize("no-tree-loop-distribute-patterns")))

// Less than a word, by two halves that may meet.
static inline void copy_some(unsigned char *d, const unsigned char *s, size_t n)
{
	uint32_t word, last;
	uint16_t half, end;
	if (n >= 4) {
		__builtin_memcpy(&word, s, 4);
		__builtin_memcpy(&last, s + n - 4, 4);
		__builtin_memcpy(d, &word, 4);
		__builtin_memcpy(d + n - 4, &last, 4);
	} else if (n >= 2) {
		__builtin_memcpy(&half, s, 2);
		__builtin_memcpy(&end, s + n - 2, 2);
		__builtin_memcpy(d, &half, 2);
		__builtin_memcpy(d + n - 2, &end, 2);
	} else if (n) {
		*d = *s;
	}
}

HIDDEN void *memcpy(void *dst, const void *src, size_t n)
{
	void *ret = dst;
	if (n <= SMALL) {
		uint64_t *d = dst;
		const uint64_t *s = src;
		for (; n >= 8; n -= 8)
			__builtin_memcpy(d++, s++, 8);
		copy_some((unsigned char *)d, (const unsigned char *)s, n);
		return ret;
	}
	__asm__ volatile("rep movsb" : "+D"(dst), "+S"(src), "+c"(n) : : "memory");
	return ret;
}

HIDDEN void *memset(void *dst, int c, size_t n)
{
	void *ret = dst;
	if (n <= SMALL) {
		uint64_t *d = dst, word = (c & 0xff) * 0x0101010101010101;
		for (; n >= 8; n -= 8)
			__builtin_memcpy(d++, &word, 8);
		dst = d;
		if (!n)
			return ret;
	}
	__asm__ volatile("rep stosb" : "+D"(dst), "+c"(n) : "a"(c) : "memory");
	return ret;
}

HIDDEN void *memmove(void *dst, const void *src, size_t n)
{
	if ((uintptr_t)dst - (uintptr_t)src >= n)
		return memcpy(dst, src, n);
	unsigned char *d = dst;
	const unsigned char *s = src;
	while (n--) {
		d[n] = s[n];
		__asm__ volatile("" : : : "memory"); // or the compiler makes a call to memmove of it
	}
	return dst;
}

HIDDEN int memcmp(const void *a, const void *b, size_t n)
{
	const unsigned char *x = a, *y = b;
	for (; n; n--, x++, y++)
		if (*x != *y)
			return *x - *y;
	return 0;
}

size_t gr_strlen(const char *s)
{
	size_t n = 0;
	while (s[n]) {
		n++;
		__asm__ volatile("");
	}
	return n;
}

int gr_strcmp(const char *a, const char *b)
{
	while (*a && *a == *b)
		a++, b++;
	return (unsigned char)*a - (unsigned char)*b;
}

static char *put_number(char *p, char *end, uint64_t value, unsigned base)
{
	char digits[24];
	unsigned n = 0;
	do
		digits[n++] = "0123456789abcdef"[value % base];
	while (value /= base);
	while (n && p < end)
		*p++ = digits[--n];
	return p;
}

void gr_format(char *dst, size_t size, const char *format, ...)
{
	va_list args;
	char *p = dst, *end = dst + size - 1;
	va_start(args, format);
	for (; *format && p < end; format++) {
		if (*format != '%') {
			*p++ = *format;
			continue;
		}
		switch (*++format) {
		case 's':
			for (const char *s = va_arg(args, const char *); *s && p < end; s++)
				*p++ = *s;
			break;
		case 'd': {
			int64_t value = va_arg(args, int64_t);
			if (value < 0)
				*p++ = '-';
			p = put_number(p, end, value < 0 ? -(uint64_t)value : (uint64_t)value, 10);
			break;
		}
		case 'u':
			p = put_number(p, end, va_arg(args, uint64_t), 10);
			break;
		case 'x':
			p = put_number(p, end, va_arg(args, uint64_t), 16);
			break;
		case '\0':
			format--;
			break;
		default:
			*p++ = *format;
		}
	}
	*p = 0;
	va_end(args);
}

uint64_t gr_hex(const char **p)
{
	uint64_t value = 0;
	for (;; (*p)++) {
		unsigned c = (unsigned char)**p;
		unsigned digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : 16;
		if (digit == 16)
			return value;
		value = value << 4 | digit;
	}
}

uint64_t gr_hash(uint64_t hash, const void *data, size_t n)
{
	const unsigned char *p = data;
	uint64_t word;
	for (; n >= 8; n -= 8, p += 8) {
		__builtin_memcpy(&word, p, 8);
		hash = gr_hash_word(hash, word);
	}
	for (word = n; n; n--)
		word = word << 8 | *p++;
	return gr_hash_word(hash, word);
}
