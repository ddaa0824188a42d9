// Condition variables waited for with a limit, of either clock: how often the time is up before the signal comes.
#include "sync.h"

#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static int tokens, stop;

static void *wait_for(void *arg)
{
	long me = (long)arg;
	pthread_mutex_lock(&mutex);
	while (!stop) {
		struct timespec limit = soon(me ? CLOCK_MONOTONIC : CLOCK_REALTIME, 60);
		int ret = me ? pthread_cond_clockwait(&cond, &mutex, CLOCK_MONOTONIC, &limit)
			     : pthread_cond_timedwait(&cond, &mutex, &limit);
		if (tokens)
			tokens--;
		mark(ret == ETIMEDOUT ? "tT"[me] : "sS"[me]);
	}
	pthread_mutex_unlock(&mutex);
	return NULL;
}

int main(void)
{
	pthread_t threads[2];
	for (long i = 0; i < 2; i++)
		CHECK(!pthread_create(&threads[i], NULL, wait_for, (void *)i));
	for (int i = 0; i < 40; i++) {
		for (int n = 0; n < 20; n++)
			work_a_little();
		pthread_mutex_lock(&mutex);
		tokens++;
		pthread_cond_signal(&cond);
		pthread_mutex_unlock(&mutex);
	}
	pthread_mutex_lock(&mutex);
	stop = 1;
	pthread_mutex_unlock(&mutex);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	printf("%s %d\n", line, tokens);
	return 0;
}
