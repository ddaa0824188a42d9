// A thread that asks by itself whether it is cancelled: how far it gets.
#include "sync.h"

#include <pthread.h>

static long counts[4];

static void *work(void *arg)
{
	for (;;) {
		counts[(long)arg]++;
		pthread_testcancel();
		if (arg)
			work_a_little();
		pthread_testcancel();
	}
	return arg;
}

int main(void)
{
	pthread_t threads[4];
	int cancelled = 0;
	for (long i = 0; i < 4; i++)
		CHECK(!pthread_create(&threads[i], NULL, work, (void *)i));
	for (int i = 0; i < 4; i++) {
		work_a_little();
		CHECK(!pthread_cancel(threads[i]));
	}
	for (int i = 0; i < 4; i++) {
		void *result;
		CHECK(!pthread_join(threads[i], &result));
		cancelled += result == PTHREAD_CANCELED;
	}
	printf("%ld %ld %ld %ld cancelled %d\n", counts[0], counts[1], counts[2], counts[3], cancelled);
	return 0;
}
