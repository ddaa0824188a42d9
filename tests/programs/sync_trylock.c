// Who gets a mutex at once, and how often nobody does.
#include "sync.h"

#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int missed[3];

static void *work(void *arg)
{
	long me = (long)arg;
	for (int i = 0; i < 40; i++) {
		if (pthread_mutex_trylock(&mutex)) {
			missed[me]++;
			continue;
		}
		mark("abc"[me]);
		work_a_little();
		pthread_mutex_unlock(&mutex);
		work_a_little();
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[3];
	for (long i = 0; i < 3; i++)
		CHECK(!pthread_create(&threads[i], NULL, work, (void *)i));
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	printf("%s %d %d %d\n", line, missed[0], missed[1], missed[2]);
	return 0;
}
