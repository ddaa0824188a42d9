// A barrier: who is the serial thread, and who comes first behind it.
#include "sync.h"

#include <pthread.h>

static pthread_barrier_t barrier;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void *work(void *name)
{
	for (int i = 0; i < 25; i++) {
		work_a_little();
		int serial = pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD;
		pthread_mutex_lock(&mutex);
		mark(serial ? *(char *)name - 'a' + 'A' : *(char *)name);
		pthread_mutex_unlock(&mutex);
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[4];
	pthread_barrier_init(&barrier, NULL, 4);
	for (int i = 0; i < 4; i++)
		CHECK(!pthread_create(&threads[i], NULL, work, &"abcd"[i]));
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	printf("%s %d\n", line, pthread_barrier_destroy(&barrier));
	return 0;
}
