// One thread makes blocks, the other frees them: a gigabyte goes through, and the process stays small.
// What differs natively is how far the maker is ahead.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { BLOCKS = 40000, QUEUE = 128 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static void *queue[QUEUE];
static int head, tail, longest;

static void *consume(void *arg)
{
	for (int i = 0; i < BLOCKS; i++) {
		pthread_mutex_lock(&lock);
		while (head == tail)
			pthread_cond_wait(&changed, &lock);
		void *p = queue[tail++ % QUEUE];
		pthread_cond_signal(&changed);
		pthread_mutex_unlock(&lock);
		free(p);
	}
	return arg;
}

int main(void)
{
	pthread_t thread;
	struct rusage usage;
	pthread_create(&thread, NULL, consume, NULL);
	for (int i = 0; i < BLOCKS; i++) {
		size_t size = i % 100 == 0 ? 2000000 : 1 + i % 14000;
		char *p = malloc(size);
		memset(p, i, size);
		pthread_mutex_lock(&lock);
		while (head - tail == QUEUE)
			pthread_cond_wait(&changed, &lock);
		queue[head++ % QUEUE] = p;
		if (head - tail > longest)
			longest = head - tail;
		pthread_cond_signal(&changed);
		pthread_mutex_unlock(&lock);
	}
	pthread_join(thread, NULL);
	getrusage(RUSAGE_SELF, &usage);
	printf("longest queue %d, %s\n", longest, usage.ru_maxrss < 64 * 1024 ? "small" : "grown");
	fprintf(stderr, "peak %ld KiB\n", usage.ru_maxrss);
	return 0;
}
