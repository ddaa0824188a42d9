// Threads that are detached while they end: who frees what the library keeps for them shows in the addresses of later blocks.
#include "sync.h"

#include <semaphore.h>
#include <stdint.h>

enum { MAKERS = 2, CHILDREN = 40, MOST = 512 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static uint64_t addresses;

static void note(uint64_t x)
{
	pthread_mutex_lock(&mutex);
	addresses = (addresses ^ x) * 0x9e3779b97f4a7c15 + 1;
	pthread_mutex_unlock(&mutex);
}

// Two of each size: what was freed last comes first.
static void look_at_the_heap(void)
{
	void *block[2 * MOST / 32];
	int count = 0;
	for (size_t size = 32; size <= MOST; size += 32) {
		note((uint64_t)(block[count++] = malloc(size)));
		note((uint64_t)(block[count++] = malloc(size)));
	}
	while (count)
		free(block[--count]);
}

static void *child(void *ready)
{
	look_at_the_heap();
	sem_post(ready);
	return NULL;
}

static void *maker(void *arg)
{
	sem_t ready;
	CHECK(!sem_init(&ready, 0, 0));
	for (int i = 0; i < CHILDREN; i++) {
		pthread_t thread;
		CHECK(!pthread_create(&thread, NULL, child, &ready));
		CHECK(!sem_wait(&ready));
		if (i % 2)
			work_a_little();
		CHECK(!pthread_detach(thread));
		look_at_the_heap();
	}
	return arg;
}

// What the library tells of one that lives and was detached.
static void *detached(void *arg)
{
	pthread_attr_t attr;
	int state = PTHREAD_CREATE_JOINABLE;
	CHECK(!pthread_detach(pthread_self()));
	CHECK(!pthread_getattr_np(pthread_self(), &attr) && !pthread_attr_getdetachstate(&attr, &state));
	printf("%d %d %d %d\n", state == PTHREAD_CREATE_DETACHED, pthread_detach(pthread_self()) == EINVAL,
	       pthread_join(pthread_self(), NULL) == EINVAL, pthread_tryjoin_np(pthread_self(), NULL) == EBUSY);
	sem_post(arg);
	return NULL;
}

int main(void)
{
	pthread_t makers[MAKERS], thread;
	sem_t done;
	for (int i = 0; i < MAKERS; i++)
		CHECK(!pthread_create(&makers[i], NULL, maker, NULL));
	for (int i = 0; i < MAKERS; i++)
		CHECK(!pthread_join(makers[i], NULL));
	CHECK(!sem_init(&done, 0, 0) && !pthread_create(&thread, NULL, detached, &done) && !sem_wait(&done));
	printf("%016llx\n", (unsigned long long)addresses);
	return 0;
}
