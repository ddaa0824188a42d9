// A long computation without an operation, all of whose loop is one line.
#include <stdlib.h>

static unsigned long x = 1;
volatile long target;
long many[64];

__attribute__((noinline)) static void hot(long i)
{
	x = x * 6364136223846793005UL + (unsigned long)i;
	many[x & 63]++;
	if ((i & 0xfffff) == 0x80000)
		target = i;
}

int main(int argc, char **argv)
{
	long n = atol(argv[1]);
	for (long i = 0; i < n; i++) hot(i);
	if (x)
		abort();
	return argc;
}
