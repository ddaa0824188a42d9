// A mutex that somebody may hold is destroyed if it can be.
#include "sync.h"

#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void *work(void *arg)
{
	for (int i = 0; i < 50; i++) {
		pthread_mutex_lock(&mutex);
		for (int n = 0; n < 3; n++)
			work_a_little();
		pthread_mutex_unlock(&mutex);
	}
	return arg;
}

int main(void)
{
	pthread_t thread;
	CHECK(!pthread_create(&thread, NULL, work, NULL));
	for (int i = 0; i < 50; i++) {
		work_a_little();
		pthread_mutex_lock(&mutex);
		int ret = pthread_mutex_destroy(&mutex); // by its owner: EBUSY
		mark(ret == EBUSY ? 'b' : '?');
		pthread_mutex_unlock(&mutex);
		work_a_little();
		mark(pthread_mutex_trylock(&mutex) ? '-' : (pthread_mutex_unlock(&mutex), '+'));
	}
	pthread_join(thread, NULL);
	printf("%s %d\n", line, pthread_mutex_destroy(&mutex));
	return 0;
}
