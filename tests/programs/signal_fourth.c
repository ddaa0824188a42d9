// Signals in front of functions with four arguments: the call is made again behind the handler, with all of them.
// What differs natively is in front of which call how many come.
#include "sync.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>

#define ROUNDS 150

static pthread_t target;
static sem_t done;
static volatile sig_atomic_t handled;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;

static void handle(int number)
{
	(void)number;
	handled++;
}

static void *disturb(void *arg)
{
	while (sem_trywait(&done)) {
		pthread_kill(target, SIGUSR1);
		work_a_little();
	}
	return arg;
}

static void *add_one(void *arg)
{
	++*(int *)arg;
	return arg;
}

int main(void)
{
	struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
	pthread_t disturber, thread;
	int sum = 0, seen = 0, late = 0;
	target = pthread_self();
	CHECK(!sigaction(SIGUSR1, &action, NULL));
	CHECK(!pthread_create(&disturber, NULL, disturb, NULL));
	for (int i = 0; i < ROUNDS; i++) {
		for (volatile int n = 0; n < 3000; n++) // signals that come here wait for what follows
			;
		CHECK(!pthread_create(&thread, NULL, add_one, &sum));
		for (volatile int n = 0; n < 3000; n++)
			;
		struct timespec at = soon(CLOCK_REALTIME, 1000000);
		CHECK(!pthread_clockjoin_np(thread, NULL, CLOCK_REALTIME, &at));
		pthread_mutex_lock(&mutex);
		at = soon(CLOCK_MONOTONIC, 20);
		for (volatile int n = 0; n < 3000; n++)
			;
		late += pthread_cond_clockwait(&cond, &mutex, CLOCK_MONOTONIC, &at) == ETIMEDOUT;
		pthread_mutex_unlock(&mutex);
		seen = seen * 31 % 65521 + handled;
	}
	sem_post(&done);
	pthread_join(disturber, NULL);
	printf("%d of %d, late %d, %d, seen %d\n", sum, ROUNDS, late > 0, handled, seen);
	return 0;
}
