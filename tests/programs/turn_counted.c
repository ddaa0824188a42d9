// Threads with a lock each that nobody else wants, and a race between: `turn_counted` prints in which order they came, which nothing
// but the order of their turns says.
#include <pthread.h>

#include "sync.h"

#define THREADS 4
#define ROUNDS 30000

static pthread_mutex_t own[THREADS]; // the same thread was its last user whenever it is locked
static volatile unsigned long came;  // nobody protects it
static pthread_barrier_t ready;

static void *work(void *arg)
{
	long me = (long)arg;
	pthread_barrier_wait(&ready);
	for (int round = 0; round < ROUNDS; round++) {
		pthread_mutex_lock(&own[me]);
		came = came * 31 + (unsigned long)me + 1;
		pthread_mutex_unlock(&own[me]);
		came = came * 37 + (unsigned long)me + 1;
	}
	return arg;
}

int main(void)
{
	pthread_t threads[THREADS];
	pthread_barrier_init(&ready, NULL, THREADS);
	for (long i = 0; i < THREADS; i++) {
		pthread_mutex_init(&own[i], NULL);
		CHECK(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("%lx\n", came);
	return 0;
}
