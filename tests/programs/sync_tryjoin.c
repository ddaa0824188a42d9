// Joining without waiting, and with a limit: how often the thread is not done yet.
#include "sync.h"

#include <pthread.h>

static void *work(void *arg)
{
	for (long i = 0; i < 30 + (long)arg; i++)
		work_a_little();
	return arg;
}

int main(void)
{
	int busy = 0, late = 0;
	long sum = 0;
	for (long i = 0; i < 12; i++) {
		pthread_t thread;
		void *result = NULL;
		struct timespec limit;
		CHECK(!pthread_create(&thread, NULL, work, (void *)i));
		for (;;) {
			int ret;
			limit = soon(i % 3 == 1 ? CLOCK_REALTIME : CLOCK_MONOTONIC, 20);
			if (i % 3 == 0)
				ret = pthread_tryjoin_np(thread, &result);
			else if (i % 3 == 1)
				ret = pthread_timedjoin_np(thread, &result, &limit);
			else
				ret = pthread_clockjoin_np(thread, &result, CLOCK_MONOTONIC, &limit);
			if (!ret)
				break;
			busy += ret == EBUSY;
			late += ret == ETIMEDOUT;
		}
		sum += (long)result;
	}
	printf("busy %d late %d sum %ld self %d\n", busy, late, sum, pthread_join(pthread_self(), NULL) == EDEADLK);
	return 0;
}
