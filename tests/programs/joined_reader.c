// Threads that make each other and wait for each other's end; the last one waits for what nobody writes, until somebody ends it all.
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

enum { THREADS = 3 };

static int ends[2];

static void *next(void *number)
{
	pthread_t thread;
	char c;
	if ((long)number < THREADS) {
		pthread_create(&thread, NULL, next, (void *)((long)number + 1));
		pthread_join(thread, NULL);
		return NULL;
	}
	puts("ready");
	fflush(stdout);
	return (void *)read(ends[0], &c, 1);
}

int main(void)
{
	return pipe(ends) || next(NULL);
}
