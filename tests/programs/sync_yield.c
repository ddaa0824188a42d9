// Threads hand each other a flag by atomics and sched_yield.
#include "sync.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

static int flag;
static long value;

static void *work(void *arg)
{
	long me = (long)arg;
	for (int i = 0; i < 40; i++) {
		while (__atomic_load_n(&flag, __ATOMIC_ACQUIRE) != me)
			sched_yield();
		struct timespec now;
		clock_gettime(CLOCK_REALTIME, &now);
		value = value * 3 + now.tv_nsec % 10;
		__atomic_store_n(&flag, !me, __ATOMIC_RELEASE);
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[2];
	for (long i = 0; i < 2; i++)
		CHECK(!pthread_create(&threads[i], NULL, work, (void *)i));
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	printf("%lx\n", value);
	return 0;
}
