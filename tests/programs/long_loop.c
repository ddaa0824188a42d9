// A loop of 100,000 passes (or argv[1]) without an operation, in a function that its caller's frame tells from others by `i` only.
#include <sys/mman.h>
#include <stdio.h>
#include <stdlib.h>

long total;

__attribute__((noinline)) void touch(const char *buffer)
{
	total += *buffer;
}

int main(int argc, char **argv)
{
#ifdef WRITABLE // code that may change cannot be counted
	mprotect((void *)((long)main & -4096), 4096, PROT_READ | PROT_WRITE | PROT_EXEC);
#endif
	char buffer[16] = {1};
	int passes = argc > 1 ? atoi(argv[1]) : 100000;
	puts("begin");
	for (int i = 0; i < passes; i++)
		touch(buffer);
	puts("end");
	return 0;
}
