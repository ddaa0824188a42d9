// As many megabytes of memory as the argument says, a few of which change between operations. Natively different: the process's id.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define MEGABYTE ((size_t)1 << 20)

int main(int argc, char **argv)
{
	size_t size = (argc > 1 ? atol(argv[1]) : 1) * MEGABYTE;
	char *memory = malloc(size);
	int sum = 0;
	for (size_t at = 0; at < size; at += 4096)
		memory[at] = (char)(at >> 12 | 1);
	for (int i = 0; i < 60; i++) {
		for (size_t at = i * 64; at < size; at += 16 * MEGABYTE)
			memory[at]++;
		sum += getppid() > 0;
	}
	for (size_t at = 0; at < size; at += 4096)
		sum += memory[at];
	printf("%d %d\n", sum, getpid() > 0);
	return 0;
}
