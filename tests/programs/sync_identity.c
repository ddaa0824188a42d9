// What threads are told about themselves and each other: ids, names that another thread gives them, processor time, where they may run.
#include "sync.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t named;

static void *work(void *arg)
{
	clockid_t clock;
	struct timespec used;
	struct sigevent quiet = {.sigev_notify = SIGEV_NONE};
	timer_t timer;
	cpu_set_t cpus;
	int policy;
	struct sched_param param;
	CHECK(!pthread_getcpuclockid(pthread_self(), &clock));
	CHECK(!clock_gettime(clock, &used));
	CHECK(!timer_create(clock, &quiet, &timer));
	CHECK(!timer_delete(timer));
	CHECK(!pthread_getaffinity_np(pthread_self(), sizeof cpus, &cpus));
	CHECK(!pthread_getschedparam(pthread_self(), &policy, &param));
	pthread_mutex_lock(&mutex);
	printf("%ld: %d %p %ld ns %d processors policy %d\n", (long)arg, gettid(), (void *)pthread_self(), used.tv_nsec,
	       CPU_COUNT(&cpus), policy);
	pthread_mutex_unlock(&mutex);
	pthread_barrier_wait(&named);
	return NULL;
}

int main(void)
{
	pthread_t threads[4];
	pthread_barrier_init(&named, NULL, 5);
	for (long i = 0; i < 4; i++)
		CHECK(!pthread_create(&threads[i], NULL, work, (void *)i));
	for (int i = 0; i < 4; i++) {
		char name[16];
		snprintf(name, sizeof name, "worker-%d", i);
		CHECK(!pthread_setname_np(threads[i], name));
		CHECK(!pthread_getname_np(threads[i], name, sizeof name));
		pthread_mutex_lock(&mutex);
		printf("%d: %s\n", i, name);
		pthread_mutex_unlock(&mutex);
	}
	pthread_barrier_wait(&named);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
