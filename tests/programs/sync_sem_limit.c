// Semaphores waited for with a limit, of either clock.
#include "sync.h"

#include <pthread.h>
#include <semaphore.h>

static sem_t sem;
static char result[2][61];

static void *work(void *arg)
{
	long me = (long)arg;
	for (int i = 0; i < 60; i++) {
		struct timespec limit = soon(me ? CLOCK_MONOTONIC : CLOCK_REALTIME, 40);
		int ret = me ? sem_clockwait(&sem, CLOCK_MONOTONIC, &limit) : sem_timedwait(&sem, &limit);
		result[me][i] = ret ? errno == ETIMEDOUT ? 't' : '?' : '.';
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[2];
	int left;
	sem_init(&sem, 0, 0);
	for (long i = 0; i < 2; i++)
		CHECK(!pthread_create(&threads[i], NULL, work, (void *)i));
	for (int i = 0; i < 60; i++) {
		for (int n = 0; n < 8; n++)
			work_a_little();
		sem_post(&sem);
	}
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	sem_getvalue(&sem, &left);
	printf("%s %s %d\n", result[0], result[1], left);
	return 0;
}
