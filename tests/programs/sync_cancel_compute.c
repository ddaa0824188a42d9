// Asynchronous cancellation of a thread that only computes: nobody could find the instruction again.
#include "sync.h"

#include <pthread.h>

static volatile long n;

static void *work(void *arg)
{
	int old;
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
	for (;;)
		n++;
	return arg;
}

int main(void)
{
	pthread_t thread;
	CHECK(!pthread_create(&thread, NULL, work, NULL));
	while (!n)
		work_a_little();
	CHECK(!pthread_cancel(thread));
	CHECK(!pthread_join(thread, NULL));
	printf("%ld\n", n);
	return 0;
}
