// What a thread does right behind giving something up, in front of its next operation: the number of a race that nobody protects
// is drawn there. What it is for whom differs from run to run, because unlocking a mutex that hands priorities on is a system call,
// and signalling a condition may have to wait for those who are just leaving it.
#include "sync.h"

#include <pthread.h>
#include <sched.h>

#define THREADS 4
#define ROUNDS 120

static pthread_mutex_t inherits, plain = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static volatile unsigned number;

static void *work(void *arg)
{
	unsigned long seen = (unsigned long)arg;
	for (int i = 0; i < ROUNDS; i++) {
		pthread_mutex_lock(&inherits);
		if (i % 3 == 0)
			sched_yield();
		pthread_mutex_unlock(&inherits);
		seen = seen * 31 + number++;
		if ((i + (unsigned long)arg) % 4 == 0) {
			struct timespec at = soon(CLOCK_REALTIME, 30);
			pthread_mutex_lock(&plain);
			pthread_cond_timedwait(&cond, &plain, &at);
			pthread_mutex_unlock(&plain);
		} else {
			pthread_cond_signal(&cond);
			seen = seen * 31 + number++;
		}
		sched_yield();
	}
	return (void *)seen;
}

int main(void)
{
	pthread_t threads[THREADS];
	pthread_mutexattr_t attr;
	CHECK(!pthread_mutexattr_init(&attr) && !pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_INHERIT));
	CHECK(!pthread_mutex_init(&inherits, &attr));
	for (unsigned long i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&threads[i], NULL, work, (void *)i));
	for (int i = 0; i < THREADS; i++) {
		void *seen;
		pthread_join(threads[i], &seen);
		printf("%lx\n", (unsigned long)seen);
	}
	printf("%u\n", number);
	return 0;
}
