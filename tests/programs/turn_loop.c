// A thread that computes for seconds without an operation, or (with an argument) until a flag is set, while another has work.
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "sync.h"

static atomic_int began, flag;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void *other(void *arg)
{
	struct timespec now;
	(void)arg;
	while (!atomic_load(&began)) // behind the main thread's last operation
		sched_yield();
	for (int i = 0; i < 100; i++)
		pthread_mutex_unlock((pthread_mutex_lock(&mutex), &mutex));
	clock_gettime(CLOCK_REALTIME, &now);
	printf("the other one has its turn at %ld\n", now.tv_nsec);
	atomic_store(&flag, 1);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	volatile unsigned long sum = 0;
	(void)argv;
	CHECK(pthread_create(&thread, NULL, other, NULL) == 0);
	atomic_store(&began, 1);
	for (unsigned long i = 0; argc > 1 ? !atomic_load(&flag) : i < 5000000000UL; i++)
		sum += i;
	pthread_join(thread, NULL);
	printf("%lu\n", argc > 1 ? 0 : sum);
	return 0;
}
