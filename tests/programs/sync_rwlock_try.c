// A read-write lock tried, with and without a limit, and the errors of one's own second locking.
#include "sync.h"

#include <pthread.h>

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static char result[4][41];

static int take(long me, int i)
{
	struct timespec limit;
	switch ((me + i) % 4) {
	case 0:
		return pthread_rwlock_tryrdlock(&lock);
	case 1:
		return pthread_rwlock_trywrlock(&lock);
	case 2:
		limit = soon(CLOCK_REALTIME, 20);
		return me & 1 ? pthread_rwlock_timedrdlock(&lock, &limit) : pthread_rwlock_timedwrlock(&lock, &limit);
	}
	limit = soon(CLOCK_MONOTONIC, 20);
	return me & 1 ? pthread_rwlock_clockrdlock(&lock, CLOCK_MONOTONIC, &limit)
		      : pthread_rwlock_clockwrlock(&lock, CLOCK_MONOTONIC, &limit);
}

static void *work(void *arg)
{
	long me = (long)arg;
	for (int i = 0; i < 40; i++) {
		int ret = take(me, i);
		result[me][i] = ret == EBUSY ? 'b' : ret == ETIMEDOUT ? 't' : ret ? '?' : '.';
		if (ret)
			continue;
		for (int n = 0; n < 6; n++)
			work_a_little();
		pthread_rwlock_unlock(&lock);
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
	pthread_rwlock_wrlock(&lock);
	int read = pthread_rwlock_rdlock(&lock), write = pthread_rwlock_wrlock(&lock);
	pthread_rwlock_unlock(&lock);
	printf("%s %s %s %s %d %d\n", result[0], result[1], result[2], result[3], read == EDEADLK, write == EDEADLK);
	return 0;
}
