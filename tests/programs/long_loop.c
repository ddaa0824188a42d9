// A loop of 100,000 passes without an operation, in a function that its caller's frame tells from others by `i` only.
#include <stdio.h>

long total;

__attribute__((noinline)) void touch(const char *buffer)
{
	total += *buffer;
}

int main(void)
{
	char buffer[16] = {1};
	puts("begin");
	for (int i = 0; i < 100000; i++)
		touch(buffer);
	puts("end");
	return 0;
}
