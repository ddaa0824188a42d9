// Two threads that hand one token to each other through a condition variable: `handover ROUNDS` prints nanoseconds of
// real time a round, which is two hand-overs. `handover yield ROUNDS`: each offers the processor to the other, ROUNDS times
// together; nanoseconds a time.
// Runs in: a program of its own, natively and recorded, driven by bench/work.py.
// May call: libc.
// Owns: nothing.
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turned = PTHREAD_COND_INITIALIZER;
static long rounds, owner;

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

static void *play(void *arg)
{
	long me = (long)arg;
	for (long i = 0; i < rounds; i++) {
		pthread_mutex_lock(&lock);
		while (owner != me)
			pthread_cond_wait(&turned, &lock);
		owner = !me;
		pthread_cond_signal(&turned);
		pthread_mutex_unlock(&lock);
	}
	return NULL;
}

static void *yield(void *arg)
{
	for (long i = 0; i < rounds / 2; i++)
		sched_yield();
	return arg;
}

int main(int argc, char **argv)
{
	void *(*work)(void *) = argc > 2 ? yield : play;
	pthread_t other;
	if (argc < 2)
		return 2;
	rounds = atol(argv[argc - 1]);
	double start = now();
	pthread_create(&other, NULL, work, (void *)1);
	work((void *)0);
	pthread_join(other, NULL);
	printf("%.2f\n", (now() - start) / rounds);
	return 0;
}
