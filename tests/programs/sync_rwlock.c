// A read-write lock: in which order readers and writers come.
#include "sync.h"

#include <pthread.h>

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static long value;
static long seen[4][40];

static void *reader(void *arg)
{
	for (int i = 0; i < 40; i++) {
		pthread_rwlock_rdlock(&lock);
		seen[(long)arg][i] = value;
		pthread_rwlock_unlock(&lock);
		work_a_little();
	}
	return NULL;
}

static void *writer(void *arg)
{
	for (int i = 0; i < 40; i++) {
		pthread_rwlock_wrlock(&lock);
		value = value * 3 + (long)arg;
		mark("..ab"[(long)arg]);
		pthread_rwlock_unlock(&lock);
		work_a_little();
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[4];
	for (long i = 0; i < 4; i++)
		CHECK(!pthread_create(&threads[i], NULL, i < 2 ? reader : writer, (void *)i));
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	unsigned long sum = 0;
	for (int i = 0; i < 2; i++)
		for (int n = 0; n < 40; n++)
			sum = sum * 31 + seen[i][n];
	printf("%s %lx\n", line, sum);
	return 0;
}
