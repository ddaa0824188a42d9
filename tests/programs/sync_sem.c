// A semaphore with two places: who has one when, what is tried in vain, and the values seen.
#include "sync.h"

#include <limits.h>
#include <pthread.h>
#include <semaphore.h>

static sem_t places;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void *work(void *name)
{
	for (int i = 0; i < 25; i++) {
		int value = -1;
		if (i % 3 == 2 && sem_trywait(&places)) {
			CHECK(errno == EAGAIN);
			pthread_mutex_lock(&mutex);
			mark('-');
			pthread_mutex_unlock(&mutex);
			continue;
		}
		if (i % 3 != 2)
			sem_wait(&places);
		sem_getvalue(&places, &value);
		pthread_mutex_lock(&mutex);
		mark(*(char *)name);
		mark('0' + value);
		pthread_mutex_unlock(&mutex);
		work_a_little();
		sem_post(&places);
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[4];
	sem_t full;
	sem_init(&places, 0, 2);
	sem_init(&full, 0, SEM_VALUE_MAX);
	for (int i = 0; i < 4; i++)
		CHECK(!pthread_create(&threads[i], NULL, work, &"abcd"[i]));
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	errno = 0;
	int over = sem_post(&full);
	printf("%s %d %d\n", line, over, errno == EOVERFLOW);
	return 0;
}
