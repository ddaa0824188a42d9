// What a pair of lock and unlock costs, of mutexes and of other primitives: one measurement a run, `locks WHAT THREADS ROUNDS`; prints nanoseconds a round.
// Runs in: a program of its own, natively and recorded, driven by bench/locks.py.
// May call: libc.
// Owns: nothing.
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MOST 64
#define WORK 2000 // steps of computing between two pairs: some microseconds

// A cache line apart, or private locks would be contended all the same.
static struct { _Alignas(128) pthread_mutex_t lock; long count; } own[MOST], common;
static struct { _Alignas(128) pthread_spinlock_t lock; long count; } spun[MOST];
static struct { _Alignas(128) sem_t lock; long count; } posted[MOST];
static pthread_rwlock_t read_by_all = PTHREAD_RWLOCK_INITIALIZER;
static pthread_barrier_t ready;
static long rounds;
static double cpu[MOST], began[MOST], ended[MOST];

static double at(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

static void *private_rounds(void *arg)
{
	long me = (long)arg;
	for (long i = 0; i < rounds; i++) {
		pthread_mutex_lock(&own[me].lock);
		own[me].count++;
		pthread_mutex_unlock(&own[me].lock);
	}
	return NULL;
}

static void *shared_rounds(void *arg)
{
	for (long i = 0; i < rounds; i++) {
		pthread_mutex_lock(&common.lock);
		common.count++;
		pthread_mutex_unlock(&common.lock);
	}
	return arg;
}

static void *spin_rounds(void *arg)
{
	long me = (long)arg;
	for (long i = 0; i < rounds; i++) {
		pthread_spin_lock(&spun[me].lock);
		spun[me].count++;
		pthread_spin_unlock(&spun[me].lock);
	}
	return NULL;
}

static void *sem_rounds(void *arg)
{
	long me = (long)arg;
	for (long i = 0; i < rounds; i++) {
		sem_wait(&posted[me].lock);
		posted[me].count++;
		sem_post(&posted[me].lock);
	}
	return NULL;
}

static void *read_rounds(void *arg)
{
	for (long i = 0; i < rounds; i++) {
		pthread_rwlock_rdlock(&read_by_all);
		pthread_rwlock_unlock(&read_by_all);
	}
	return arg;
}

static void *compute_rounds(void *arg)
{
	volatile unsigned x = 1;
	for (long i = 0; i < rounds; i++) {
		for (int n = 0; n < WORK; n++)
			x = x * 1664525 + 1013904223;
		pthread_mutex_lock(&common.lock);
		common.count++;
		pthread_mutex_unlock(&common.lock);
	}
	return arg;
}

static void *(*work)(void *);

static void *timed(void *arg)
{
	pthread_barrier_wait(&ready);
	began[(long)arg] = at(CLOCK_MONOTONIC);
	double start = at(CLOCK_THREAD_CPUTIME_ID);
	work(arg);
	cpu[(long)arg] = at(CLOCK_THREAD_CPUTIME_ID) - start;
	ended[(long)arg] = at(CLOCK_MONOTONIC);
	return NULL;
}

int main(int argc, char **argv)
{
	static const struct { const char *name; void *(*run)(void *); } all[] = {
		{"private", private_rounds}, {"shared", shared_rounds}, {"compute", compute_rounds},
		{"spin", spin_rounds}, {"sem", sem_rounds}, {"read", read_rounds},
	};
	long threads = argc == 4 ? atol(argv[2]) : 0;
	pthread_t thread[MOST];
	if (threads < 1 || threads > MOST)
		return 2;
	rounds = atol(argv[3]);
	for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
		if (strcmp(all[i].name, argv[1]) == 0)
			work = all[i].run;
	if (!work)
		return 2;
	pthread_barrier_init(&ready, NULL, threads + 1);
	for (long i = 0; i < threads; i++) {
		pthread_mutex_init(&own[i].lock, NULL);
		pthread_spin_init(&spun[i].lock, 0);
		sem_init(&posted[i].lock, 0, 1);
		pthread_create(&thread[i], NULL, timed, (void *)i);
	}
	pthread_barrier_wait(&ready);
	double first = 0, last = 0, sum = 0;
	for (long i = 0; i < threads; i++) {
		pthread_join(thread[i], NULL);
		first = !i || began[i] < first ? began[i] : first;
		last = ended[i] > last ? ended[i] : last;
		sum += cpu[i];
	}
	double real = last - first;
	printf("%.2f %.2f\n", sum / rounds / threads, real / rounds / threads);
	return 0;
}
