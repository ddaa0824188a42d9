// Everybody is woken: in which order they come.
#include "sync.h"

#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER, back = PTHREAD_COND_INITIALIZER;
static int round_, arrived;

static void *work(void *name)
{
	pthread_mutex_lock(&mutex);
	for (int i = 1; i <= 20; i++) {
		arrived++;
		pthread_cond_signal(&back);
		while (round_ < i)
			pthread_cond_wait(&cond, &mutex);
		mark(*(char *)name);
	}
	pthread_mutex_unlock(&mutex);
	return NULL;
}

int main(void)
{
	pthread_t threads[6];
	for (int i = 0; i < 6; i++)
		CHECK(!pthread_create(&threads[i], NULL, work, &"abcdef"[i]));
	pthread_mutex_lock(&mutex);
	for (int i = 1; i <= 20; i++) {
		while (arrived < 6 * i)
			pthread_cond_wait(&back, &mutex);
		mark(' ');
		round_ = i;
		pthread_cond_broadcast(&cond);
	}
	pthread_mutex_unlock(&mutex);
	for (int i = 0; i < 6; i++)
		pthread_join(threads[i], NULL);
	printf("%s\n", line);
	return 0;
}
