// A robust mutex: threads die with it, the next ones find it so, mend it or do not.
#include "sync.h"

#include <pthread.h>

static pthread_mutex_t mutex;

static void *work(void *name)
{
	int ret = pthread_mutex_lock(&mutex);
	mark(*(char *)name);
	if (ret == EOWNERDEAD) {
		mark('!');
		mark(pthread_mutex_consistent(&mutex) ? '?' : '.');
	}
	work_a_little();
	if (written < 20)
		return NULL; // without giving it back
	pthread_mutex_unlock(&mutex);
	return NULL;
}

int main(void)
{
	pthread_t threads[12];
	pthread_mutexattr_t attr;
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&mutex, &attr);
	for (int i = 0; i < 12; i++)
		CHECK(!pthread_create(&threads[i], NULL, work, &"abcdefghijkl"[i]));
	for (int i = 0; i < 12; i++)
		pthread_join(threads[i], NULL);
	// Not mended: from then on nobody gets it.
	written = 0;
	CHECK(!pthread_create(&threads[0], NULL, work, "x"));
	pthread_join(threads[0], NULL);
	int dead = pthread_mutex_lock(&mutex), twice = pthread_mutex_consistent(&mutex);
	int given = pthread_mutex_unlock(&mutex), wrong = pthread_mutex_consistent(&mutex);
	printf("%s owner died %d, consistent %d %d, unlock %d\n", line, dead == EOWNERDEAD, twice, wrong, given);
	written = 0;
	CHECK(!pthread_create(&threads[0], NULL, work, "y"));
	pthread_join(threads[0], NULL);
	dead = pthread_mutex_lock(&mutex);
	given = pthread_mutex_unlock(&mutex);
	printf("owner died %d, unlock %d,", dead == EOWNERDEAD, given);
	for (int i = 0; i < 3; i++) // each is told
		printf(" lock %d", pthread_mutex_lock(&mutex) == ENOTRECOVERABLE);
	printf("\n");
	return 0;
}
