// A loop of 100,000 passes (or argv[1]) without an operation, in a function that its caller's frame tells from others by `i` only.
#include <stdio.h>
#include <stdlib.h>

long total;

__attribute__((noinline)) void touch(const char *buffer)
{
	total += *buffer;
}

int main(int argc, char **argv)
{
	char buffer[16] = {1};
	int passes = argc > 1 ? atoi(argv[1]) : 100000;
	puts("begin");
	for (int i = 0; i < passes; i++)
		touch(buffer);
	puts("end");
	return 0;
}
