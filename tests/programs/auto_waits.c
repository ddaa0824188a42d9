// A thread waits for another one in a loop, with plain loads and stores.
#include <pthread.h>
#include <sched.h>
#include <stdio.h>

static int ready;

static void *run(void *arg)
{
	__atomic_store_n(&ready, 1, __ATOMIC_RELEASE);
	return arg;
}

int main(void)
{
	pthread_t thread;
	unsigned long turns = 0;
	pthread_create(&thread, NULL, run, NULL);
	for (; !__atomic_load_n(&ready, __ATOMIC_ACQUIRE); turns++) {
		__builtin_ia32_pause();
		if (turns % 64 == 63)
			sched_yield();
	}
	pthread_join(thread, NULL);
	printf("%d\n", ready);
	return 0;
}
