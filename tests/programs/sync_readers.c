// Four threads that read under one lock, again and again. What they read is the same in every run; in which order they came is not.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define THREADS 4
#define ROUNDS 900

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static long number;

static void *work(void *arg)
{
	long seen = 0;
	for (int i = 0; i < ROUNDS; i++) {
		pthread_rwlock_rdlock(&lock);
		seen += number;
		pthread_rwlock_unlock(&lock);
	}
	*(long *)arg = seen;
	return NULL;
}

int main(void)
{
	pthread_t thread[THREADS];
	long seen[THREADS];
	pthread_rwlock_wrlock(&lock);
	number = 3;
	pthread_rwlock_unlock(&lock);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&thread[i], NULL, work, &seen[i]);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	for (int i = 0; i < THREADS; i++)
		printf("%ld ", seen[i]);
	printf("\n");
	return 0;
}
