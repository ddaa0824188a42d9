// Threads that do something and come to an operation at which the program's end finds them: what they did before is seen by
// the main thread, though none of them does anything behind it.
#include "sync.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <unistd.h>

#define THREADS 4
#define ROUNDS 400

static sem_t begun, rounds;
static volatile unsigned done, order;

static void *work(void *arg)
{
	sem_post(&begun);
	for (int i = 0; i < ROUNDS; i++) {
		order = order * 31 + (unsigned)(unsigned long)arg;
		done++;
		sem_post(&rounds);
	}
	done += 100;
	pause();
	return NULL;
}

int main(void)
{
	pthread_t thread;
	sem_init(&begun, 0, 0);
	sem_init(&rounds, 0, 0);
	for (unsigned long i = 1; i <= THREADS; i++)
		CHECK(!pthread_create(&thread, NULL, work, (void *)i));
	for (int i = 0; i < THREADS; i++)
		sem_wait(&begun);
	printf("%u %u\n", done, order);
	fflush(stdout);
	_exit(0);
}
