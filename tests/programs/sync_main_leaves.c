// The main thread leaves first; the last one to end runs what was left for the exit.
#include "sync.h"

#include <pthread.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void at_exit(void)
{
	printf("%s\n", line);
}

static void *work(void *name)
{
	for (int i = 0; i < 10; i++) {
		pthread_mutex_lock(&mutex);
		mark(*(char *)name);
		pthread_mutex_unlock(&mutex);
		work_a_little();
	}
	return NULL;
}

int main(void)
{
	pthread_t thread;
	atexit(at_exit);
	for (int i = 0; i < 6; i++) {
		CHECK(!pthread_create(&thread, NULL, work, &"abcdef"[i]));
		pthread_detach(thread);
	}
	pthread_exit(NULL);
}
