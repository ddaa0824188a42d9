// Four threads print lines to the program's own output, which is buffered: the order of the lines.
#include <pthread.h>
#include <stdio.h>

#define THREADS 4

static pthread_barrier_t together;

static void *print(void *arg)
{
	pthread_barrier_wait(&together);
	for (int i = 0; i < 300; i++)
		printf("thread %ld, line %d\n", (long)arg, i);
	return NULL;
}

int main(void)
{
	static char buffer[1 << 16];
	pthread_t threads[THREADS];
	setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
	pthread_barrier_init(&together, NULL, THREADS);
	for (long i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, print, (void *)i);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
