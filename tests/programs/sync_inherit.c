// A priority-inheriting mutex, plain, recursive and robust ones in one.
#include "sync.h"

#include <pthread.h>

static pthread_mutex_t plain, deep;

static void *work(void *name)
{
	for (int i = 0; i < 15; i++) {
		pthread_mutex_lock(&plain);
		mark(*(char *)name);
		pthread_mutex_unlock(&plain);
		int ret = pthread_mutex_trylock(&deep);
		if (ret) {
			pthread_mutex_lock(&plain);
			mark('-');
			pthread_mutex_unlock(&plain);
			continue;
		}
		pthread_mutex_lock(&deep);
		work_a_little();
		pthread_mutex_unlock(&deep);
		pthread_mutex_unlock(&deep);
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[3];
	pthread_mutexattr_t attr;
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_INHERIT);
	CHECK(!pthread_mutex_init(&plain, &attr));
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	CHECK(!pthread_mutex_init(&deep, &attr));
	for (int i = 0; i < 3; i++)
		CHECK(!pthread_create(&threads[i], NULL, work, &"abc"[i]));
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	printf("%s\n", line);
	return 0;
}
