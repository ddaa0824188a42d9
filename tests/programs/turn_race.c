// Threads that race: a counter without a lock, flags of their own, a lock of their own. What they find differs from run to run.
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "sync.h"

#define THREADS 4
#define ROUNDS 3000000
#define WINS 100

static volatile long counter; // nobody protects it
static atomic_int ready, go, lock;
static char winners[THREADS * WINS + 1];
static int won;

static void *racer(void *arg)
{
	int me = (int)(long)arg;
	struct timespec now;
	atomic_fetch_add(&ready, 1);
	while (!atomic_load_explicit(&go, memory_order_acquire)) // a flag: no library function stands behind it
		sched_yield();
	for (int round = 0; round < ROUNDS; round++) {
		long seen = counter;
		if (round % 32768 == me)
			clock_gettime(CLOCK_MONOTONIC, &now); // an operation between reading and writing
		counter = seen + 1;
		if (round % (ROUNDS / WINS))
			continue;
		while (atomic_exchange(&lock, 1))
			sched_yield();
		winners[won++] = (char)('a' + me);
		if (now.tv_nsec % 4 == 0)
			sched_yield();
		atomic_store(&lock, 0);
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[THREADS];
	for (long i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, racer, (void *)i) == 0);
	while (atomic_load(&ready) < THREADS)
		sched_yield();
	atomic_store(&go, 1);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("%ld of %d, %s\n", counter, THREADS * ROUNDS, winners);
	return 0;
}
