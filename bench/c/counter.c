// Shared counters with five knobs: `counter THREADS COUNTERS FIELDS READS WORK ROUNDS` prints nanoseconds of real time an access.
// Each thread draws a counter and one of its fields, and increments it under the field's lock, or reads it (READS of 100
// accesses; then the locks are read-write locks; -1: all increment, and there are no locks); WORK steps of computing lie between two accesses.
// Runs in: a program of its own, natively and recorded, driven by bench/work.py.
// May call: libc.
// Owns: nothing.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MOST = 64, COUNTERS = 1024, FIELDS = 16 };

// A line of the cache for each field, or fields would be shared all the same.
static struct field {
	_Alignas(128) pthread_mutex_t lock;
	pthread_rwlock_t either;
	long value;
} fields[COUNTERS][FIELDS];
static pthread_barrier_t ready;
static long threads, counters, width, reads, work, rounds;
static double began[MOST], ended[MOST];

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

static unsigned draw(unsigned *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 17;
	*x ^= *x << 5;
	return *x;
}

static long touch(struct field *f, int read)
{
	long seen;
	if (reads < 0)
		return ++*(volatile long *)&f->value;
	if (!reads)
		pthread_mutex_lock(&f->lock);
	else if (read)
		pthread_rwlock_rdlock(&f->either);
	else
		pthread_rwlock_wrlock(&f->either);
	seen = read ? f->value : f->value++;
	if (!reads)
		pthread_mutex_unlock(&f->lock);
	else
		pthread_rwlock_unlock(&f->either);
	return seen;
}

static void *run(void *arg)
{
	long me = (long)arg, sum = 0;
	unsigned x = 2463534242u + me;
	volatile unsigned spent = 1;
	pthread_barrier_wait(&ready);
	began[me] = now();
	for (long i = 0; i < rounds; i++) {
		struct field *f = &fields[draw(&x) % counters][draw(&x) % width];
		sum += touch(f, draw(&x) % 100 < reads);
		for (long n = 0; n < work; n++)
			spent = spent * 1664525 + 1013904223;
	}
	ended[me] = now();
	return (void *)sum;
}

int main(int argc, char **argv)
{
	pthread_t ids[MOST];
	if (argc != 7)
		return 2;
	threads = atol(argv[1]), counters = atol(argv[2]), width = atol(argv[3]);
	reads = atol(argv[4]), work = atol(argv[5]), rounds = atol(argv[6]);
	if (threads < 1 || threads > MOST || counters < 1 || counters > COUNTERS || width < 1 || width > FIELDS)
		return 2;
	for (long i = 0; i < counters; i++)
		for (long n = 0; n < width; n++) {
			pthread_mutex_init(&fields[i][n].lock, NULL);
			pthread_rwlock_init(&fields[i][n].either, NULL);
		}
	pthread_barrier_init(&ready, NULL, threads);
	for (long i = 0; i < threads; i++)
		pthread_create(&ids[i], NULL, run, (void *)i);
	double first = 0, last = 0;
	for (long i = 0; i < threads; i++) {
		pthread_join(ids[i], NULL);
		first = !i || began[i] < first ? began[i] : first;
		last = ended[i] > last ? ended[i] : last;
	}
	printf("%.2f\n", (last - first) / rounds / threads);
	return 0;
}
