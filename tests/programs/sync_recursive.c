// A recursive mutex: who takes it when, and how deep.
#include "sync.h"

#include <pthread.h>

static pthread_mutex_t mutex;

static void deeper(char name, int depth)
{
	pthread_mutex_lock(&mutex);
	mark(name);
	work_a_little();
	if (depth)
		deeper(name, depth - 1);
	pthread_mutex_unlock(&mutex);
}

static void *work(void *name)
{
	for (int i = 0; i < 15; i++) {
		work_a_little();
		deeper(*(char *)name, i % 3);
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[3];
	pthread_mutexattr_t attr;
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&mutex, &attr);
	for (int i = 0; i < 3; i++)
		CHECK(!pthread_create(&threads[i], NULL, work, &"abc"[i]));
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	printf("%s unlock of a free one %d destroyed %d\n", line, pthread_mutex_unlock(&mutex), pthread_mutex_destroy(&mutex));
	return 0;
}
