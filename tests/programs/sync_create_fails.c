// Threads that cannot be what is wanted of them: the kernel has made them by then, and the library ends them, before and beside others.
#include "sync.h"

#include <sched.h>

static void *work(void *arg)
{
	work_a_little();
	return arg;
}

int main(void)
{
	pthread_attr_t attr;
	pthread_t thread, other;
	cpu_set_t cores;
	CPU_ZERO(&cores);
	CPU_SET(CPU_SETSIZE - 1, &cores); // there is none of that number
	pthread_attr_init(&attr);
	CHECK(!pthread_attr_setaffinity_np(&attr, sizeof cores, &cores));
	for (int round = 0; round < 20; round++) {
		printf("%d ", pthread_create(&thread, &attr, work, NULL)); // a lock of the library's is what comes next
		CHECK(!pthread_create(&other, NULL, work, NULL));
		printf("%d ", pthread_create(&thread, &attr, work, NULL));
		CHECK(!pthread_join(other, NULL));
		mark('a' + soon(CLOCK_MONOTONIC, 0).tv_nsec % 26);
	}
	printf("%s\n", line);
	return 0;
}
