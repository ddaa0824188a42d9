// Two threads take two locks in two orders and wait for each other; a third waits for a condition, main for the first.
#include "sync.h"

#include <pthread.h>
#include <unistd.h>

static pthread_mutex_t left = PTHREAD_MUTEX_INITIALIZER, right = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t both;

static void *forward(void *arg)
{
	pthread_mutex_lock(&left);
	pthread_barrier_wait(&both);
	pthread_mutex_lock(&right);
	return arg;
}

static void *backward(void *arg)
{
	pthread_mutex_lock(&right);
	pthread_barrier_wait(&both);
	pthread_mutex_lock(&left);
	return arg;
}

static void *wait_for(void *arg)
{
	pthread_mutex_lock(&mutex);
	pthread_cond_wait(&cond, &mutex);
	return arg;
}

int main(void)
{
	pthread_t threads[3];
	char text[] = "ready\n";
	pthread_barrier_init(&both, NULL, 3);
	CHECK(!pthread_create(&threads[0], NULL, forward, NULL));
	CHECK(!pthread_create(&threads[1], NULL, backward, NULL));
	CHECK(!pthread_create(&threads[2], NULL, wait_for, NULL));
	pthread_barrier_wait(&both);
	CHECK(write(1, text, sizeof text - 1) > 0);
	pthread_join(threads[0], NULL);
	return 0;
}
