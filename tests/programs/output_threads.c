// Threads that write to the same output at the same time, with nothing but the kernel between them.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rounds;
static pthread_barrier_t begin;

static void *work(void *name)
{
	char line[32];
	pthread_barrier_wait(&begin);
	for (int i = 0; i < rounds; i++) {
		int n = snprintf(line, sizeof line, "%s %d\n", (const char *)name, i);
		if (write(1, line, n) != n)
			exit(1);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	static char names[4][2] = {"a", "b", "c", "d"};
	pthread_t threads[4];
	pthread_barrier_init(&begin, NULL, 4);
	rounds = argc > 1 ? atoi(argv[1]) : 2000;
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, work, names[i]);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
