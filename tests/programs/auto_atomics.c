// Two threads count with an atomic instruction of the program's own, and look at the count: who found what.
#include <pthread.h>
#include <stdio.h>

static int count;
static unsigned long sums[2];

static void *run(void *arg)
{
	unsigned long *sum = arg;
	for (int i = 0; i < 20000; i++)
		*sum = *sum * 31 + (unsigned long)__atomic_fetch_add(&count, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

int main(void)
{
	pthread_t threads[2];
	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, run, &sums[i]);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	printf("%016lx %016lx\n", sums[0], sums[1]);
	return 0;
}
