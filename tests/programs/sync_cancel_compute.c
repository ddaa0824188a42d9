// Asynchronous cancellation of threads that only compute: how far they came, and what their cleanup handlers found.
// `sync_cancel_compute THREADS` makes so many, one after the other.
#include "sync.h"

#include <pthread.h>
#include <semaphore.h>

#define THREADS 3

// What others change beside it, on pages of their own.
static _Alignas(4096) volatile unsigned long n[THREADS][512];
static _Alignas(4096) volatile unsigned long seen[THREADS];
static sem_t begun;

static void clean(void *arg)
{
	seen[(long)arg] = n[(long)arg][0];
}

// No operation, and something in the red zone of a function that calls none.
static unsigned long compute(volatile unsigned long *where)
{
	unsigned long spread[4] = {1, 2, 3, 4};
	for (;;) {
		spread[*where % 4] += *where;
		*where += spread[(*where + 1) % 4] % 2 + 1;
	}
	return spread[0];
}

static void *work(void *arg)
{
	int old;
	pthread_cleanup_push(clean, arg);
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
	sem_post(&begun);
	compute(n[(long)arg]);
	pthread_cleanup_pop(0);
	return arg;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	const struct timespec nap = {0, 40000000};
	void *result;
	sem_init(&begun, 0, 0);
	for (long i = 0; i < (argc > 1 ? atol(argv[1]) : THREADS); i++) {
		CHECK(!pthread_create(&thread, NULL, work, (void *)i));
		sem_wait(&begun);
		nanosleep(&nap, NULL);
		CHECK(!pthread_cancel(thread));
		CHECK(!pthread_join(thread, &result));
		printf("%d at %lu, cleaned up at %lu\n", result == PTHREAD_CANCELED, n[i][0], seen[i]);
	}
	return 0;
}
