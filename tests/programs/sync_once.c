// Things that happen once: which thread does them, with locks and calls inside.
#include "sync.h"

#include <pthread.h>

static pthread_once_t once[20];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local char me;

static void happen(void)
{
	work_a_little();
	pthread_mutex_lock(&mutex);
	mark(me);
	pthread_mutex_unlock(&mutex);
}

static void *work(void *name)
{
	me = *(char *)name;
	for (int i = 0; i < 20; i++) {
		pthread_once(&once[i], happen);
		pthread_once(&once[i], happen);
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[4];
	for (int i = 0; i < 4; i++)
		CHECK(!pthread_create(&threads[i], NULL, work, &"abcd"[i]));
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	printf("%s\n", line);
	return 0;
}
