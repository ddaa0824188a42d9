// A megabyte is written between any two epochs, forty times. Natively different: the process's id.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(void)
{
	size_t size = 1 << 20;
	char *memory = malloc(size);
	int sum = 0;
	for (int i = 0; i < 40; i++) {
		memset(memory, i, size);
		for (int call = 0; call < 8; call++)
			sum += getppid() > 0;
	}
	printf("%d %d %d\n", sum, memory[1000], getpid());
	return 0;
}
