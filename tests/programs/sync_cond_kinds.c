// Waiting with mutexes of other types: recursive, errorchecking (also without owning it), robust with a dead owner.
#include "sync.h"

#include <pthread.h>

static pthread_mutex_t deep, strict = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP, robust;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static int turn, left[2] = {20, 20};

static void *ping(void *arg)
{
	long me = (long)arg;
	pthread_mutex_lock(&deep);
	for (int i = 0; i < 20; i++) {
		while (turn != me && left[!me])
			pthread_cond_wait(&cond, &deep);
		struct timespec now;
		clock_gettime(CLOCK_REALTIME, &now);
		mark("ab"[me]);
		turn = now.tv_nsec % 3 ? !me : me;
		left[me]--;
		pthread_cond_broadcast(&cond);
		work_a_little();
	}
	pthread_mutex_unlock(&deep);
	return NULL;
}

static void *die(void *arg)
{
	pthread_mutex_lock(&robust);
	turn = 7;
	pthread_cond_signal(&cond);
	return arg;
}

int main(void)
{
	pthread_t threads[2];
	pthread_mutexattr_t attr;
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&deep, &attr);
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&robust, &attr);
	int unowned = pthread_cond_wait(&cond, &strict);
	for (long i = 0; i < 2; i++)
		CHECK(!pthread_create(&threads[i], NULL, ping, (void *)i));
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	int ret = pthread_mutex_lock(&robust), waits = 0;
	CHECK(!pthread_create(&threads[0], NULL, die, NULL));
	while (turn != 7) {
		ret = pthread_cond_wait(&cond, &robust);
		waits++;
	}
	printf("%s unowned %d dead %d consistent %d waits %d\n", line, unowned == EPERM, ret == EOWNERDEAD,
	       pthread_mutex_consistent(&robust), waits);
	pthread_mutex_unlock(&robust);
	pthread_join(threads[0], NULL);
	return 0;
}
