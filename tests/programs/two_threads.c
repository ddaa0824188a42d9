// Two threads change a balance under one mutex, by amounts taken from the clock: another result in every run.
// With an argument it ends by abort().
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
int balance = 100;

static void *work(void *arg)
{
	for (int i = 0; i < 20; i++) {
		struct timespec now;
		pthread_mutex_lock(&mutex);
		int seen = balance;
		pthread_mutex_unlock(&mutex);
		clock_gettime(CLOCK_REALTIME, &now);
		pthread_mutex_lock(&mutex);
		balance = seen - (int)(now.tv_nsec % 7) - (int)(long)arg;
		printf("%d\n", balance);
		pthread_mutex_unlock(&mutex);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[2];
	(void)argv;
	for (long i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, work, (void *)(i + 1));
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	fflush(stdout);
	if (argc > 1)
		abort();
	return 7;
}
