// Two threads, one mutex, one clock: what natively differs from run to run is who adds when, and the time.
#include <pthread.h>
#include <stdio.h>
#include <time.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long total, turns;
static char order[41];

static void *work(void *name)
{
	for (int i = 0; i < 20; i++) {
		struct timespec now;
		clock_gettime(CLOCK_MONOTONIC, &now);
		pthread_mutex_lock(&lock);
		total += now.tv_nsec % 1000;
		order[turns++] = *(char *)name;
		pthread_mutex_unlock(&lock);
	}
	return NULL;
}

static void puts_total(void)
{
	printf("%s %ld\n", order, total);
}

int main(void)
{
	pthread_t a, b;
	pthread_create(&a, NULL, work, "a");
	pthread_create(&b, NULL, work, "b");
	pthread_join(a, NULL);
	pthread_join(b, NULL);
	puts_total();
	return 0;
}
