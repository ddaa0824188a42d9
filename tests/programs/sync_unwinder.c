// Threads that are the first to need the C library's unwinder, at the same time: by leaving, by asking who called them, and by
// being cancelled.
#include "sync.h"

#include <execinfo.h>
#include <pthread.h>
#include <threads.h>

#define THREADS 6

static pthread_barrier_t start;
static unsigned order;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void leave(void *arg)
{
	pthread_mutex_lock(&mutex);
	order = order * 10 + (unsigned)(unsigned long)arg;
	pthread_mutex_unlock(&mutex);
}

static void *work(void *arg)
{
	void *callers[8];
	unsigned long number = (unsigned long)arg;
	pthread_cleanup_push(leave, arg);
	pthread_barrier_wait(&start);
	if (number % 3 == 0 && backtrace(callers, 8) < 2)
		return NULL;
	if (number % 3 == 1)
		thrd_exit(1);
	pthread_exit((void *)number);
	pthread_cleanup_pop(0);
	return NULL;
}

int main(void)
{
	pthread_t threads[THREADS];
	unsigned long sum = 0;
	CHECK(!pthread_barrier_init(&start, NULL, THREADS));
	for (unsigned long i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&threads[i], NULL, work, (void *)(i + 1)));
	for (int i = 0; i < THREADS; i++) {
		void *value;
		CHECK(!pthread_join(threads[i], &value));
		sum = sum * 10 + (unsigned long)value;
	}
	printf("%lu %u\n", sum, order);
	return 0;
}
