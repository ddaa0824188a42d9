// Locks of every kind that know their owner are held across many operations, one inside the other.
#include "sync.h"

#include <pthread.h>

#define KINDS 6

static pthread_mutex_t mutex[KINDS];
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
int inside, errors, counter;

static void init(void)
{
	static const int types[KINDS] = {PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_ERRORCHECK,
					 PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_ERRORCHECK};
	for (int i = 0; i < KINDS; i++) {
		pthread_mutexattr_t attr;
		pthread_mutexattr_init(&attr);
		pthread_mutexattr_settype(&attr, types[i]);
		if (i > 2)
			pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
		if (i > 3)
			pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_INHERIT);
		pthread_mutex_init(&mutex[i], &attr);
	}
}

static void *work(void *name)
{
	for (int i = 0; i < 12; i++) {
		pthread_rwlock_wrlock(&rwlock);
		inside++;
		for (int n = 0; n < KINDS; n++) {
			errors += pthread_mutex_lock(&mutex[n]) != 0;
			work_a_little();
		}
		errors += pthread_mutex_lock(&mutex[1]) != 0; // once more
		errors += pthread_mutex_lock(&mutex[2]) != EDEADLK;
		mark(*(char *)name);
		counter++;
		work_a_little();
		errors += pthread_mutex_unlock(&mutex[1]) != 0;
		for (int n = KINDS - 1; n >= 0; n--) {
			errors += pthread_mutex_unlock(&mutex[n]) != 0;
			work_a_little();
		}
		errors += pthread_mutex_unlock(&mutex[2]) != EPERM;
		inside--;
		pthread_rwlock_unlock(&rwlock);
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[3];
	init();
	for (int i = 0; i < 3; i++)
		CHECK(!pthread_create(&threads[i], NULL, work, &"abc"[i]));
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	printf("%s errors %d\n", line, errors);
	return 0;
}
