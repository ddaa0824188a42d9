// Mutexes waited for with a limit, of either clock: who is in time.
#include "sync.h"

#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char result[4][31];

static void *work(void *arg)
{
	long me = (long)arg;
	for (int i = 0; i < 30; i++) {
		struct timespec limit = soon(me & 1 ? CLOCK_MONOTONIC : CLOCK_REALTIME, 30);
		int ret = me & 1 ? pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &limit) : pthread_mutex_timedlock(&mutex, &limit);
		result[me][i] = ret == ETIMEDOUT ? 't' : '.';
		if (ret)
			continue;
		mark("abcd"[me]);
		for (int n = 0; n < 8; n++)
			work_a_little();
		pthread_mutex_unlock(&mutex);
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[4];
	for (long i = 0; i < 4; i++)
		CHECK(!pthread_create(&threads[i], NULL, work, (void *)i));
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	printf("%s %s %s %s %s\n", line, result[0], result[1], result[2], result[3]);
	return 0;
}
