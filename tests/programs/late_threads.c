// Long alone, then many threads at once: what a replay needs of processes and threads it needs late. Says how often they counted.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t all;
int count;

static void *live(void *arg)
{
	for (int i = 0; i < 10; i++) {
		pthread_mutex_lock(&lock);
		count++;
		pthread_mutex_unlock(&lock);
	}
	pthread_barrier_wait(&all);
	return arg;
}

int main(int argc, char **argv)
{
	int threads = argc > 1 ? atoi(argv[1]) : 8;
	pthread_t id[64];
	pthread_barrier_init(&all, NULL, threads);
	for (int i = 0; i < 400; i++)
		if (getppid() < 0)
			return 1;
	for (int i = 0; i < threads; i++)
		if (pthread_create(&id[i], NULL, live, NULL))
			return 2;
	for (int i = 0; i < threads; i++)
		pthread_join(id[i], NULL);
	printf("%d\n", count);
	return 0;
}
