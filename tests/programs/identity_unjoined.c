// Threads that have ended and are joined late: what they left on their stacks belongs to nobody by then, and the kernel clears
// their ids when it likes. Natively different: the sum of what they read from the clock.
#include <pthread.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define THREADS 4

static int ends[2];
static long sum;

static void *work(void *arg)
{
	struct timespec now;
	for (int i = 0; i < 20; i++) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		sum = sum * 31 + now.tv_nsec;
	}
	if (write(ends[1], "x", 1) != 1)
		return NULL;
	return arg;
}

int main(void)
{
	pthread_t threads[THREADS];
	char byte;
	if (pipe(ends))
		return 1;
	for (int i = 0; i < THREADS; i++) {
		pthread_create(&threads[i], NULL, work, NULL);
		if (read(ends[0], &byte, 1) != 1)
			return 1;
		for (int k = 0; k < 40; k++)
			syscall(SYS_getppid);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("%lx\n", sum);
	return 0;
}
