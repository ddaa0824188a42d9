// Threads ask for things that happen once, thousands of times; natively different: who does each, and how often it was asked for by then.
#include "sync.h"

#include <pthread.h>
#include <stdio.h>

#define THREADS 4
#define THINGS 8
#define ROUNDS 5000

static struct { _Alignas(64) pthread_once_t once; long who, asked; } things[THINGS] = {
	[0 ... THINGS - 1] = {.once = PTHREAD_ONCE_INIT},
};
static _Thread_local long me, rounds;
static _Thread_local int thing;
static pthread_barrier_t together;

static void happen(void)
{
	things[thing].who = me;
	things[thing].asked = rounds;
}

static void *ask(void *arg)
{
	me = (long)arg;
	pthread_barrier_wait(&together);
	for (rounds = 0; rounds < ROUNDS; rounds++) {
		thing = (int)(rounds * (me + 1) / 500 % THINGS);
		pthread_once(&things[thing].once, happen);
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[THREADS];
	CHECK(!pthread_barrier_init(&together, NULL, THREADS));
	for (long i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&threads[i], NULL, ask, (void *)i));
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_join(threads[i], NULL));
	for (int i = 0; i < THINGS; i++)
		printf("%d: thread %ld, round %ld\n", i, things[i].who, things[i].asked);
	return 0;
}
