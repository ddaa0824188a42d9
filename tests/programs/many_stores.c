// Stores to one variable in one segment, as many as the first argument says: to its address, through a pointer, or through a pointer
// that the same instruction uses for another variable as well; behind the last one it stores only there. Natively the same.
// Runs in: tests/timeline.
// May call: the C library, the kernel.
// Owns: nothing.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

volatile int value, other;

__attribute__((noinline)) static void put(volatile int *to, int what)
{
	*to = what;
}

int main(int argc, char **argv)
{
	int count = argc > 2 ? atoi(argv[1]) : 0;
	const char *way = argc > 2 ? argv[2] : "";
	getppid();
	if (!strcmp(way, "direct"))
		for (int i = 1; i <= count; i++)
			value = i;
	if (!strcmp(way, "pointer"))
		for (int i = 1; i <= count; i++)
			put(&value, i);
	if (!strcmp(way, "both"))
		for (int i = 1; i <= count; i++) {
			put(&value, i);
			put(&other, i);
		}
	if (!strcmp(way, "behind")) {
		for (int i = 1; i <= count; i++)
			put(&value, i);
		for (int i = 1; i <= count; i++)
			put(&other, i);
	}
	getppid();
	printf("%d\n", value);
	return 0;
}
