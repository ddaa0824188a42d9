// The time stamp counter never goes back, not even from one thread to another, and it runs as fast as it does by itself.
#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <x86intrin.h>

#define THREADS 4
#define ROUNDS 2000

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned long long last;
static long back;

static void *read_often(void *unused)
{
	for (int i = 0; i < ROUNDS; i++) {
		unsigned int processor;
		pthread_mutex_lock(&lock);
		unsigned long long now = i & 1 ? __rdtsc() : __rdtscp(&processor);
		back += now < last;
		last = now;
		pthread_mutex_unlock(&lock);
	}
	return unused;
}

static double seconds(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC_RAW, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

// The counter and the time of one moment: of some readings that between which least time went by.
static unsigned long long moment(double *ret)
{
	unsigned long long best = 0;
	double least = 1e9;
	for (int i = 0; i < 50; i++) {
		double before = seconds();
		unsigned long long now = __rdtsc();
		double behind = seconds();
		if (behind - before < least) {
			least = behind - before;
			*ret = before;
			best = now;
		}
	}
	return best;
}

int main(void)
{
	struct timespec pause = {0, 100000000};
	pthread_t other[THREADS];
	double start, end;
	for (int i = 0; i < THREADS; i++)
		pthread_create(&other[i], NULL, read_often, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_join(other[i], NULL);
	unsigned long long first = moment(&start);
	nanosleep(&pause, NULL);
	unsigned long long cycles = moment(&end) - first;
	printf("%.0f %ld\n", cycles / (end - start) / 1e3, back);
	return 0;
}
