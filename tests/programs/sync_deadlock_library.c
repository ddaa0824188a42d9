// A thread has a stream and wants a read-write lock that main reads under, which wants the stream: a lock of the C library.
#include "sync.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_barrier_t both;

static void *change(void *arg)
{
	flockfile(stdout);
	pthread_barrier_wait(&both);
	pthread_rwlock_wrlock(&lock);
	return arg;
}

int main(void)
{
	pthread_t thread;
	char text[] = "ready\n";
	pthread_barrier_init(&both, NULL, 2);
	CHECK(!pthread_create(&thread, NULL, change, NULL));
	pthread_rwlock_rdlock(&lock);
	pthread_barrier_wait(&both);
	CHECK(write(1, text, sizeof text - 1) > 0);
	flockfile(stdout);
	return 0;
}
