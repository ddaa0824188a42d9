// One long computation without an operation: KIND for COUNT rounds, each of which calls `hot`; `seldom` changes now and then.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

volatile long seldom;
static uint64_t x = 1;
static char from[1 << 16], to[1 << 16];

__attribute__((noinline)) static void hot(long i)
{
	x = x * 6364136223846793005u + (uint64_t)i;
	if (i % 1000003 == 1000000)
		seldom = i;
}

static void loop(long i) { hot(i); }

static void nested(long i)
{
	for (int a = 0; a < 10; a++)
		for (int b = 0; b < 20; b++)
			x += (uint64_t)(a * b);
	hot(i);
}

__attribute__((noinline)) static long fibonacci(long n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }

static void recursion(long i)
{
	x += (uint64_t)fibonacci(9);
	hot(i);
}

static void vectors(long i)
{
	static double values[256];
	for (int a = 0; a < 256; a++)
		values[a] = values[a] * 0.5 + (double)i;
	hot(i);
}

static void copies(long i)
{
	memcpy(to, from + i % 64, 4000 + i % 4000);
	memset(from, (int)i, 3000);
	hot(i);
}

typedef long (*method)(long);
__attribute__((noinline)) static long one(long n) { return n + 1; }
__attribute__((noinline)) static long two(long n) { return n ^ 3; }
__attribute__((noinline)) static long three(long n) { return n * 5; }
static const method methods[] = {one, two, three, two};

static void calls(long i)
{
	for (int a = 0; a < 20; a++)
		x = (uint64_t)methods[x >> 13 & 3]((long)x);
	hot(i);
}

static void interpreter(long i)
{
	static void *const labels[] = {&&add, &&less, &&twist, &&end};
	static const char code[] = "\0\1\2\2\0\1\0\2\0\1\3";
	const char *at = code;
	goto *labels[(int)*at];
add:
	x += 7;
	goto *labels[(int)*++at];
less:
	x -= 3;
	goto *labels[(int)*++at];
twist:
	x ^= x >> 11;
	goto *labels[(int)*++at];
end:
	hot(i);
}

int main(int argc, char **argv)
{
	static const struct { const char *name; void (*round)(long); } kinds[] = {
		{"loop", loop}, {"nested", nested}, {"recursion", recursion}, {"vectors", vectors},
		{"copies", copies}, {"calls", calls}, {"interpreter", interpreter},
	};
	long count = argc > 2 ? atol(argv[2]) : 0;
	for (unsigned k = 0; k < sizeof kinds / sizeof *kinds; k++)
		for (long i = 0; argc > 1 && strcmp(argv[1], kinds[k].name) == 0 && i < count; i++)
			kinds[k].round(i);
	if (x)
		abort();
	return 0;
}
