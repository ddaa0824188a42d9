// Threads that live one after the other: nothing but the end of each lets the main thread go on.
#include <pthread.h>
#include <stdio.h>
#include <time.h>

static long total;

static void *work(void *arg)
{
	struct timespec now;
	(void)arg;
	clock_gettime(CLOCK_MONOTONIC, &now);
	total += now.tv_nsec % 1000;
	return NULL;
}

int main(void)
{
	for (int i = 0; i < 6; i++) {
		pthread_t thread;
		pthread_create(&thread, NULL, work, NULL);
		pthread_join(thread, NULL);
	}
	printf("%ld\n", total);
	return 0;
}
