// Computes for hundreds of thousands of instructions between two operations: loops, calls, recursion, a sort of the C library.
// Runs in: tests/timeline, tests/gdb.
// May call: the C library.
// Owns: nothing.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static unsigned numbers[4000];

static int by_size(const void *a, const void *b)
{
	unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;
	return x < y ? -1 : x > y;
}

__attribute__((noinline)) static unsigned fill(unsigned seed)
{
	for (int i = 0; i < 4000; i++) {
		seed = seed * 1664525 + 1013904223;
		if (seed & 1 << 20)
			numbers[i] = seed >> 8;
		else
			numbers[i] = seed >> 4;
	}
	return seed;
}

__attribute__((noinline)) static unsigned depth(unsigned n)
{
	return n < 2 ? n : depth(n - 1) + depth(n - 2);
}

int main(void)
{
	unsigned seed = (unsigned)time(NULL);
	seed = fill(seed);
	qsort(numbers, 4000, sizeof *numbers, by_size);
	unsigned deep = depth(12);
	printf("%d %u\n", numbers[0] <= numbers[3999], deep);
	return 0;
}
