// Blocks that one thread takes and another gives back, so that heaps exchange them.
// Runs in: tests/gdb.
// May call: malloc.
// Owns: nothing.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define BLOCKS 6000

static void *blocks[BLOCKS];

static void *make(void *arg)
{
	for (int at = 0; at < BLOCKS; at++)
		blocks[at] = at % 3 ? malloc(100 + at % 50) : calloc(1, 200);
	return arg;
}

static void drop(int many)
{
	for (int at = 0; at < many; at++)
		free(blocks[at]);
}

int main(void)
{
	pthread_t thread;
	for (int round = 0; round < 2; round++) {
		pthread_create(&thread, NULL, make, NULL);
		pthread_join(thread, NULL);
		drop(BLOCKS);
	}
	make(NULL);
	drop(BLOCKS);
	puts("passed");
	return 0;
}
