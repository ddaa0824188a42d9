// Four threads draw from one generator of the C library: who gets which number.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define THREADS 4

static int draws = 3000;
static unsigned long sums[THREADS];

static pthread_barrier_t together;

static void *draw(void *arg)
{
	unsigned long *sum = arg;
	pthread_barrier_wait(&together);
	for (int i = 0; i < draws; i++)
		*sum = *sum * 31 + (unsigned long)(i % 2 ? random() : rand());
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS];
	if (argc > 1)
		draws = atoi(argv[1]);
	srandom(7);
	pthread_barrier_init(&together, NULL, THREADS);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, draw, &sums[i]);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < THREADS; i++)
		printf("thread %d: %016lx\n", i, sums[i]);
	return 0;
}
