// 256 threads alive at the same time, which all go on at once.
#include "sync.h"

#include <pthread.h>

#define CROWD 255

static pthread_barrier_t barrier;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static unsigned long order;

static void *work(void *arg)
{
	pthread_barrier_wait(&barrier);
	pthread_mutex_lock(&mutex);
	order = order * 257 + (unsigned long)arg;
	pthread_mutex_unlock(&mutex);
	return arg;
}

int main(void)
{
	pthread_t threads[CROWD];
	pthread_attr_t attr;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 64 * 1024);
	pthread_barrier_init(&barrier, NULL, CROWD + 1);
	for (long i = 0; i < CROWD; i++)
		CHECK(!pthread_create(&threads[i], &attr, work, (void *)i));
	pthread_barrier_wait(&barrier);
	for (int i = 0; i < CROWD; i++)
		CHECK(!pthread_join(threads[i], NULL));
	printf("%lx\n", order);
	return 0;
}
