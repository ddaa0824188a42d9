// Threads made by several threads at once and ending all the time, up to 256 of them.
#include "sync.h"

#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static unsigned long order = 1, places = 1;

static void *leaf(void *arg)
{
	pthread_mutex_lock(&mutex);
	order = order * 31 + (unsigned long)arg;
	places = places * 31 + (unsigned long)&arg;
	pthread_mutex_unlock(&mutex);
	return arg;
}

static void *branch(void *arg)
{
	pthread_t threads[64];
	for (long round = 0; round < 2; round++) {
		for (long i = 0; i < 62; i++)
			CHECK(!pthread_create(&threads[i], NULL, leaf, (void *)((long)arg * 1000 + round * 100 + i)));
		for (int i = 61; i >= 0; i--)
			CHECK(!pthread_join(threads[i], NULL));
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[4];
	for (long i = 0; i < 4; i++)
		CHECK(!pthread_create(&threads[i], NULL, branch, (void *)i));
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	printf("%lx %lx\n", order, places);
	return 0;
}
