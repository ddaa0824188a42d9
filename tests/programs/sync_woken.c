// How often a waiter is woken without finding what it waits for.
#include "sync.h"

#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static int tokens, idle[4], got[4];

static void *work(void *arg)
{
	long me = (long)arg;
	pthread_mutex_lock(&mutex);
	while (got[me] < 25) {
		while (!tokens) {
			pthread_cond_wait(&cond, &mutex);
			idle[me] += !tokens;
		}
		tokens--;
		got[me]++;
		mark("abcd"[me]);
	}
	pthread_mutex_unlock(&mutex);
	return NULL;
}

int main(void)
{
	pthread_t threads[4];
	for (long i = 0; i < 4; i++)
		CHECK(!pthread_create(&threads[i], NULL, work, (void *)i));
	for (int given = 0; given < 100; given++) {
		work_a_little();
		pthread_mutex_lock(&mutex);
		tokens++;
		pthread_mutex_unlock(&mutex);
		pthread_cond_broadcast(&cond); // without the mutex
	}
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	printf("%s %d %d %d %d\n", line, idle[0], idle[1], idle[2], idle[3]);
	return 0;
}
