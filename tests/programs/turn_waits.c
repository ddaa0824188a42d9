// Two threads that wait for each other as OpenMP does where it may not sleep: a loop with `pause` that counts, and so is never in the same
// state twice. Natively different: how often each of them looked.
#include <immintrin.h>
#include <stdint.h>

#include "sync.h"

enum { ROUNDS = 6 };

static volatile int turn;
static unsigned long looked[2];
static int reads;

static void read_counter(void)
{
	__asm__ volatile("rdtsc; shl $32, %%rdx; or %%rdx, %%rax; lea 0x20000000(%%rax), %%rcx\n"
			 "1: rdtsc; shl $32, %%rdx; or %%rdx, %%rax; cmp %%rcx, %%rax; jb 1b\n"
			 "xor %%eax, %%eax; xor %%ecx, %%ecx; xor %%edx, %%edx"
			 : : : "rax", "rcx", "rdx", "cc");
}

static void *play(void *arg)
{
	int me = (int)(intptr_t)arg;
	for (int i = 0; i < ROUNDS; i++) {
		if (reads && !me && i > 1)
			read_counter();
		for (; turn != me; looked[me]++)
			_mm_pause();
		turn = !me;
	}
	return arg;
}

int main(int argc, char **argv)
{
	pthread_t other;
	reads = argc > 1;
	(void)argv;
	CHECK(pthread_create(&other, NULL, play, (void *)1) == 0);
	play((void *)0);
	pthread_join(other, NULL);
	printf("%lu %lu\n", looked[0], looked[1]);
	return 0;
}
