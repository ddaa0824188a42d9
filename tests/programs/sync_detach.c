// Detached threads, some from birth, some later, some when they may have ended; their stacks are used again.
#include "sync.h"

#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static int ended;
static unsigned long stacks;

static void *work(void *name)
{
	work_a_little();
	pthread_mutex_lock(&mutex);
	mark(*(char *)name);
	stacks = stacks * 31 + (unsigned long)&name;
	ended++;
	pthread_cond_signal(&cond);
	pthread_mutex_unlock(&mutex);
	return NULL;
}

int main(void)
{
	pthread_attr_t attr;
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	for (int i = 0; i < 60; i++) {
		pthread_t thread;
		CHECK(!pthread_create(&thread, i % 3 ? NULL : &attr, work, &"abc"[i % 3]));
		if (i % 3 == 2)
			work_a_little();
		if (i % 3)
			CHECK(!pthread_detach(thread));
		pthread_mutex_lock(&mutex);
		while (ended < i - 4)
			pthread_cond_wait(&cond, &mutex);
		pthread_mutex_unlock(&mutex);
	}
	pthread_mutex_lock(&mutex);
	while (ended < 60)
		pthread_cond_wait(&cond, &mutex);
	pthread_mutex_unlock(&mutex);
	printf("%s %lx\n", line, stacks);
	return 0;
}
