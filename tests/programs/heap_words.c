// Words that the allocator itself changes, in the middle of a segment: zeros, copies, what a freed block begins with.
// Runs in: tests/gdb.
// May call: the C library.
// Owns: nothing.
#include <stdio.h>
#include <stdlib.h>

static volatile long sum;
static unsigned long where;

__attribute__((noinline)) static void last(unsigned long block)
{
	sum += (long)block;
}

int main(void)
{
	long *p = malloc(64);
	p[0] = 1;
	p[1] = 2;
	p = realloc(p, 100000);
	sum += p[1];
	free(p);
	sum++;
	long *q = calloc(10, 8);
	where = (unsigned long)q;
	q[0] = 5;
	q[1] = 6;
	sum = q[0];
	free(q);
	for (int i = 0; i < 10; i++)
		sum += i;
	last(where);
	return sum == 0;
}
