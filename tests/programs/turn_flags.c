// Threads that wait for each other by a word in memory, in loops without an operation. Whose turn is next is drawn from the clock:
// natively different.
#include <pthread.h>

#include "sync.h"

enum { THREADS = 3, ROUNDS = 24 };

static volatile int turn, round_;
static char drawn[ROUNDS + 1];

void passed(void) // for a debugger
{
	__asm__ volatile("");
}

static void *play(void *arg)
{
	int me = (int)(long)arg;
	struct timespec now;
	for (;;) {
		while (turn != me)
			;
		if (round_ == ROUNDS)
			break;
		clock_gettime(CLOCK_MONOTONIC, &now);
		int next = (me + 1 + (int)(now.tv_nsec / 64 % (THREADS - 1))) % THREADS;
		drawn[round_++] = (char)('a' + next);
		passed();
		turn = next;
	}
	turn = (me + 1) % THREADS;
	return arg;
}

int main(void)
{
	pthread_t threads[THREADS];
	for (long i = 1; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, play, (void *)i) == 0);
	play((void *)0);
	for (int i = 1; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("%s\n", drawn);
	return 0;
}
