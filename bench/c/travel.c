// What a debugger goes back and forth in: `travel SECONDS`, four threads that wait, compute a little and count under a lock.
// Runs in: a program of its own, recorded by bench/gdb.py.
// May call: libc.
// Owns: nothing.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { THREADS = 4 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile long total, newest;
static double until;

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static __attribute__((noinline)) long mixed(long seed)
{
	volatile long sum = seed;
	for (long i = 0; i < 20000; i++)
		sum = sum * 31 + i;
	return sum;
}

static void *work(void *arg)
{
	struct timespec nap = {.tv_nsec = 1000000};
	long own = (long)arg;
	while (now() < until) {
		nanosleep(&nap, NULL);
		own = mixed(own);
		pthread_mutex_lock(&lock);
		total++;
		if (total % 64 == 0)
			newest = own;
		pthread_mutex_unlock(&lock);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread[THREADS];
	until = now() + (argc > 1 ? atof(argv[1]) : 10);
	for (long i = 0; i < THREADS; i++)
		pthread_create(&thread[i], NULL, work, (void *)i);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	newest = total;
	printf("%d\n", total > 0);
	return 0;
}
