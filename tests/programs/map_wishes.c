// Wishes for addresses at which the engine will want to be, and makes threads behind that.
// Runs in: tests. May call: libc.
// Owns: the wishes: where the heaps and stacks of further threads go, and in between.

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static void *work(void *number)
{
	char *block = malloc(1000);
	memset(block, (int)(long)number, 1000);
	return block;
}

int main(void)
{
	static const unsigned long wishes[] = {
		0x2a0800000000, 0x2a1000000000, 0x2a1812345000, 0x520000000000, 0x200000000000, 0x5f0000000000,
	};
	long sum = 0;
	for (unsigned i = 0; i < sizeof wishes / sizeof *wishes; i++) {
		char *got = mmap((void *)wishes[i], 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (got == MAP_FAILED)
			return 1;
		memset(got, 1, 1 << 20);
		sum += got[12345];
	}
	for (long i = 1; i <= 4; i++) {
		pthread_t thread;
		void *block;
		if (pthread_create(&thread, NULL, work, (void *)i))
			return 1;
		pthread_join(thread, &block);
		sum += *(char *)block;
	}
	printf("%ld\n", sum);
	return 0;
}
