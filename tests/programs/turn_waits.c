// Two threads that wait for each other as OpenMP does where it may not sleep: a loop with `pause` that counts, and so is never in the same
// state twice. Natively different: how often each of them looked.
#include <immintrin.h>
#include <stdint.h>

#include "sync.h"

enum { ROUNDS = 6 };

static volatile int turn;
static unsigned long looked[2];

static void *play(void *arg)
{
	int me = (int)(intptr_t)arg;
	for (int i = 0; i < ROUNDS; i++) {
		for (; turn != me; looked[me]++)
			_mm_pause();
		turn = !me;
	}
	return arg;
}

int main(void)
{
	pthread_t other;
	CHECK(pthread_create(&other, NULL, play, (void *)1) == 0);
	play((void *)0);
	pthread_join(other, NULL);
	printf("%lu %lu\n", looked[0], looked[1]);
	return 0;
}
