// Asynchronous cancellation of threads that make calls and take locks all the time.
#include "sync.h"

#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int ready, rounds[2];

static void *work(void *arg)
{
	int old;
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
	for (;;) {
		struct timespec nap = {1000, 0};
		pthread_mutex_lock(&mutex);
		ready++;
		rounds[(long)arg]++;
		pthread_mutex_unlock(&mutex);
		nanosleep(&nap, NULL);
	}
	return arg;
}

int main(void)
{
	pthread_t threads[2];
	int cancelled = 0, now = 0;
	for (long i = 0; i < 2; i++)
		CHECK(!pthread_create(&threads[i], NULL, work, (void *)i));
	while (now < 2) {
		work_a_little();
		pthread_mutex_lock(&mutex);
		now = ready;
		mark('0' + now);
		pthread_mutex_unlock(&mutex);
	}
	struct timespec until_they_sleep = {0, 5000000};
	nanosleep(&until_they_sleep, NULL);
	for (int i = 0; i < 2; i++)
		CHECK(!pthread_cancel(threads[i]));
	for (int i = 0; i < 2; i++) {
		void *result;
		CHECK(!pthread_join(threads[i], &result));
		cancelled += result == PTHREAD_CANCELED;
	}
	printf("%s %d %d cancelled %d\n", line, rounds[0], rounds[1], cancelled);
	return 0;
}
