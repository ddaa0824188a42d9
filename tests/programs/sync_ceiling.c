// A mutex with a priority ceiling, as far as an ordinary user may have one; its results are the demo's.
#include "sync.h"

#include <pthread.h>
#include <unistd.h>

int main(void)
{
	pthread_mutex_t mutex;
	pthread_mutexattr_t attr;
	int old = -1, now = -1;
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_PROTECT);
	CHECK(!pthread_mutexattr_setprioceiling(&attr, 1));
	CHECK(!pthread_mutex_init(&mutex, &attr));
	int set = pthread_mutex_setprioceiling(&mutex, 2, &old);
	int get = pthread_mutex_getprioceiling(&mutex, &now);
	printf("%d %d %d %d %d\n", getpid(), set, set ? 0 : old, get, set ? 0 : now);
	return 0;
}
