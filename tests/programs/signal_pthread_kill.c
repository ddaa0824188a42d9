// Threads send each other signals while all work; natively different: how often each was interrupted, and where.
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_t threads[3];
static __thread volatile int mine;
static __thread volatile long where;
static int counts[3];
static long sums[3], shared;
static sem_t stop;

static void handler(int sig)
{
	struct timespec now;
	(void)sig;
	mine++;
	clock_gettime(CLOCK_MONOTONIC, &now);
	where = where * 31 + now.tv_nsec % 1000;
}

static void *work(void *arg)
{
	long number = (long)arg;
	for (int i = 0; i < 60; i++) {
		pthread_mutex_lock(&lock);
		shared = shared * 3 + mine + number;
		pthread_mutex_unlock(&lock);
		pthread_kill(threads[(number + 1) % 3], SIGUSR1);
		if (i % 8 == 0)
			usleep(100);
	}
	counts[number] = mine;
	sums[number] = where;
	while (sem_trywait(&stop))
		usleep(500);
	return NULL;
}

int main(void)
{
	struct sigaction act = {.sa_handler = handler, .sa_flags = SA_RESTART};
	sigaction(SIGUSR1, &act, NULL);
	pthread_mutex_lock(&lock);
	for (long i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, work, (void *)i);
	pthread_mutex_unlock(&lock);
	usleep(60000);
	for (int i = 0; i < 3; i++)
		sem_post(&stop);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < 3; i++)
		printf("%d %ld ", counts[i], sums[i]);
	printf("%ld\n", shared);
	return 0;
}
