// What threads are told about themselves and each other: ids, names, processor time, where they may run.
#include "sync.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void *work(void *arg)
{
	clockid_t clock;
	struct timespec used;
	cpu_set_t cpus;
	int policy;
	struct sched_param param;
	CHECK(!pthread_getcpuclockid(pthread_self(), &clock));
	CHECK(!clock_gettime(clock, &used));
	CHECK(!pthread_getaffinity_np(pthread_self(), sizeof cpus, &cpus));
	CHECK(!pthread_getschedparam(pthread_self(), &policy, &param));
	pthread_mutex_lock(&mutex);
	printf("%ld: %d %p %ld ns %d processors policy %d\n", (long)arg, gettid(), (void *)pthread_self(), used.tv_nsec,
	       CPU_COUNT(&cpus), policy);
	pthread_mutex_unlock(&mutex);
	return NULL;
}

int main(void)
{
	pthread_t threads[4];
	for (long i = 0; i < 4; i++)
		CHECK(!pthread_create(&threads[i], NULL, work, (void *)i));
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
