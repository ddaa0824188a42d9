// A bounded queue with two condition variables: who produces and who consumes what.
#include "sync.h"

#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER, emptied = PTHREAD_COND_INITIALIZER;
static int queue[4], count, done;

static void *produce(void *arg)
{
	for (int i = 0; i < 60; i++) {
		pthread_mutex_lock(&mutex);
		while (count == 4)
			pthread_cond_wait(&emptied, &mutex);
		queue[count++] = (int)(long)arg;
		pthread_cond_signal(&filled);
		pthread_mutex_unlock(&mutex);
		work_a_little();
	}
	return NULL;
}

static void *consume(void *arg)
{
	pthread_mutex_lock(&mutex);
	for (;;) {
		while (!count && !done)
			pthread_cond_wait(&filled, &mutex);
		if (!count)
			break;
		mark("abcdefghi"[queue[--count] * 3 + (int)(long)arg]);
		pthread_cond_signal(&emptied);
	}
	pthread_mutex_unlock(&mutex);
	return NULL;
}

int main(void)
{
	pthread_t producers[3], consumers[3];
	for (long i = 0; i < 3; i++) {
		CHECK(!pthread_create(&consumers[i], NULL, consume, (void *)i));
		CHECK(!pthread_create(&producers[i], NULL, produce, (void *)i));
	}
	for (int i = 0; i < 3; i++)
		pthread_join(producers[i], NULL);
	pthread_mutex_lock(&mutex);
	done = 1;
	pthread_cond_broadcast(&filled);
	pthread_mutex_unlock(&mutex);
	for (int i = 0; i < 3; i++)
		pthread_join(consumers[i], NULL);
	printf("%s %d %d\n", line, pthread_cond_destroy(&filled), pthread_cond_destroy(&emptied));
	return 0;
}
