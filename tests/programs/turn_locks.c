// Threads that meet only at objects of the library: nothing of the world outside decides who comes next. Prints who came.
#include <pthread.h>
#include <semaphore.h>

#include "sync.h"

#define THREADS 4

static int rounds = 40;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t shared = PTHREAD_RWLOCK_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_spinlock_t spin;
static pthread_barrier_t barrier;
static sem_t seats;
static int waiting;
static char readers[LINE + 1];

static void first(void)
{
	pthread_mutex_lock(&mutex);
	mark('!');
	pthread_mutex_unlock(&mutex);
}

static void *meet(void *arg)
{
	char me = (char)(long)arg;
	pthread_once(&once, first);
	for (int round = 0; round < rounds; round++) {
		sem_wait(&seats);
		pthread_mutex_lock(&mutex);
		mark(me);
		if (round % 4 == 0 && waiting < THREADS - 1) { // somebody always comes by who does not wait
			waiting++;
			pthread_cond_wait(&changed, &mutex);
			waiting--;
		} else if (waiting) {
			pthread_cond_signal(&changed);
		}
		pthread_mutex_unlock(&mutex);
		sem_post(&seats);
		pthread_rwlock_rdlock(&shared);
		pthread_spin_lock(&spin);
		readers[strlen(readers) % LINE] = me;
		pthread_spin_unlock(&spin);
		pthread_rwlock_unlock(&shared);
		if (round % 8 == me % 8) {
			pthread_rwlock_wrlock(&shared);
			pthread_mutex_lock(&mutex); // of the line; readers never take it
			mark((char)(me - 'a' + 'A'));
			pthread_mutex_unlock(&mutex);
			pthread_rwlock_unlock(&shared);
		}
	}
	pthread_mutex_lock(&mutex); // whoever still waits must not wait for ever
	pthread_cond_broadcast(&changed);
	waiting = THREADS;
	pthread_mutex_unlock(&mutex);
	if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD) {
		pthread_mutex_lock(&mutex);
		mark('.');
		pthread_mutex_unlock(&mutex);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS];
	if (argc > 1)
		rounds = atoi(argv[1]);
	pthread_spin_init(&spin, 0);
	pthread_barrier_init(&barrier, NULL, THREADS);
	sem_init(&seats, 0, THREADS);
	for (long i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, meet, (void *)('a' + i)) == 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("%s\n%s\n", line, readers);
	return 0;
}
