// Cancellation disabled while it is asked for, and acted upon later; a thread that cancels itself; one that is gone.
#include "sync.h"

#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

static sem_t asked;
static int ends[2];
static int steps[3];

static void *disabled(void *arg)
{
	int old;
	char c;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
	sem_post(&asked);
	for (int i = 0; i < 10; i++) {
		CHECK(read(ends[0], &c, 1) == 1); // not cancelled, not interrupted
		pthread_testcancel();
		work_a_little();
		steps[0]++;
	}
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old);
	steps[1]++;
	for (;;) {
		struct timespec nap = {0, 10000};
		nanosleep(&nap, NULL);
		steps[2]++;
	}
	return arg;
}

static void *itself(void *arg)
{
	struct timespec nap = {0, 10};
	CHECK(!pthread_cancel(pthread_self()));
	steps[1] += 10;
	nanosleep(&nap, NULL);
	steps[1] += 100;
	return arg;
}

static void *gone(void *arg)
{
	return arg;
}

int main(void)
{
	pthread_t threads[3];
	int cancelled = 0;
	CHECK(!pipe(ends));
	sem_init(&asked, 0, 0);
	CHECK(!pthread_create(&threads[0], NULL, disabled, NULL));
	CHECK(!pthread_create(&threads[1], NULL, itself, NULL));
	CHECK(!pthread_create(&threads[2], NULL, gone, NULL));
	sem_wait(&asked);
	work_a_little();
	CHECK(!pthread_cancel(threads[0]));
	for (int i = 0; i < 10; i++) {
		work_a_little();
		CHECK(write(ends[1], "x", 1) == 1);
	}
	CHECK(!pthread_cancel(threads[2]));
	for (int i = 0; i < 3; i++) {
		void *result;
		CHECK(!pthread_join(threads[i], &result));
		cancelled += result == PTHREAD_CANCELED;
	}
	printf("%d %d %d cancelled %d of %d\n", steps[0], steps[1], steps[2], cancelled, getpid());
	return 0;
}
