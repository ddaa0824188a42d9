// A handler that runs while its thread waits to read under a read-write lock, and goes on when that is free.
// Runs in: tests/identity.
// May call: the kernel.
// Owns: nothing.
#include "sync.h"

#include <signal.h>
#include <unistd.h>

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_barrier_t both;
static int entered[2], leave[2];

static void handler(int number)
{
	char byte = (char)number;
	int before = errno;
	CHECK(write(entered[1], &byte, 1) == 1);
	CHECK(read(leave[0], &byte, 1) == 1);
	errno = before;
}

static void *reader(void *arg)
{
	for (int i = 0; i < 8; i++) {
		pthread_barrier_wait(&both);
		CHECK(!pthread_rwlock_rdlock(&lock));
		work_a_little();
		CHECK(!pthread_rwlock_unlock(&lock));
		pthread_barrier_wait(&both);
	}
	return arg;
}

int main(void)
{
	struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
	struct timespec now;
	pthread_t thread;
	CHECK(!sigaction(SIGUSR1, &action, NULL));
	CHECK(!pipe(entered) && !pipe(leave));
	pthread_barrier_init(&both, NULL, 2);
	CHECK(!pthread_create(&thread, NULL, reader, NULL));
	for (int i = 0; i < 8; i++) {
		char byte;
		CHECK(!pthread_rwlock_wrlock(&lock));
		pthread_barrier_wait(&both);
		usleep(2000);
		CHECK(!pthread_kill(thread, SIGUSR1));
		CHECK(read(entered[0], &byte, 1) == 1);
		CHECK(!pthread_rwlock_unlock(&lock));
		for (int k = 0; k < 4; k++) {
			clock_gettime(CLOCK_MONOTONIC, &now);
			printf("%ld\n", now.tv_nsec);
		}
		CHECK(write(leave[1], &byte, 1) == 1);
		pthread_barrier_wait(&both);
	}
	CHECK(!pthread_join(thread, NULL));
	return 0;
}
