// 240 threads that live at once read from pipes, each with buffers of the engine's own. Says how many reads were wrong.
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define THREADS 240
#define ROUNDS 20

static int pipes[THREADS][2], bad;

static void *run(void *arg)
{
	long i = (long)arg;
	char bytes[64];
	for (int k = 0; k < ROUNDS; k++)
		if (read(pipes[i][0], bytes, sizeof bytes) != sizeof bytes || bytes[0] != (char)i || bytes[63] != (char)i)
			__atomic_add_fetch(&bad, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

int main(void)
{
	pthread_t threads[THREADS];
	char bytes[64];
	for (long i = 0; i < THREADS; i++)
		if (pipe(pipes[i]) || pthread_create(&threads[i], NULL, run, (void *)i))
			return 1;
	for (int k = 0; k < ROUNDS; k++)
		for (int i = 0; i < THREADS; i++) {
			memset(bytes, i, sizeof bytes);
			if (write(pipes[i][1], bytes, sizeof bytes) != sizeof bytes)
				return 1;
		}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("bad %d\n", bad);
	return bad != 0;
}
