// As many threads as asked for, four at a time, which end at once.
#include "sync.h"

#include <pthread.h>
#include <stdlib.h>

#define AT_ONCE 4
#define TOLD 1000

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static long count;

static void *work(void *arg)
{
	pthread_mutex_lock(&mutex);
	count++;
	pthread_mutex_unlock(&mutex);
	return arg;
}

int main(int argc, char **argv)
{
	long wanted = argc > 1 ? atol(argv[1]) : 100;
	while (count < wanted) {
		pthread_t threads[AT_ONCE];
		for (int i = 0; i < AT_ONCE; i++)
			CHECK(!pthread_create(&threads[i], NULL, work, NULL));
		for (int i = 0; i < AT_ONCE; i++)
			CHECK(!pthread_join(threads[i], NULL));
		if (count % TOLD == 0)
			printf("%ld\n", count), fflush(stdout);
	}
	return 0;
}
