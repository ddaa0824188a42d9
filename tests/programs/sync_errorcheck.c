// An errorchecking mutex: every error it knows, and who meets it.
#include "sync.h"

#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP, order = PTHREAD_MUTEX_INITIALIZER;
static int foreign, again;

static void *work(void *name)
{
	for (int i = 0; i < 20; i++) {
		int ret = pthread_mutex_trylock(&mutex);
		if (ret == EBUSY) {
			int wrong = pthread_mutex_unlock(&mutex); // EPERM, or it became free meanwhile
			pthread_mutex_lock(&order);
			mark(wrong == EPERM ? '!' : '?');
			foreign += wrong;
			pthread_mutex_unlock(&order);
			continue;
		}
		pthread_mutex_lock(&order);
		mark(*(char *)name);
		again += pthread_mutex_lock(&mutex) == EDEADLK;
		pthread_mutex_unlock(&order);
		work_a_little();
		pthread_mutex_unlock(&mutex);
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[3];
	for (int i = 0; i < 3; i++)
		CHECK(!pthread_create(&threads[i], NULL, work, &"abc"[i]));
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	printf("%s %d %d\n", line, foreign, again);
	return 0;
}
