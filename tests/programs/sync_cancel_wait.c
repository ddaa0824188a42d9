// Threads are cancelled while they wait for a condition, a semaphore or a thread; their cleanup handlers run.
#include "sync.h"

#include <pthread.h>
#include <semaphore.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, order = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static sem_t sem;
static pthread_t sleeper;
static int unlocked;

static void note(void *name)
{
	pthread_mutex_lock(&order);
	mark(*(char *)name);
	pthread_mutex_unlock(&order);
}

static void give_back(void *arg)
{
	unlocked += pthread_mutex_unlock(arg) == 0;
}

static void *wait_cond(void *name)
{
	pthread_cleanup_push(note, name);
	pthread_mutex_lock(&mutex);
	pthread_cleanup_push(give_back, &mutex);
	note("(");
	for (;;)
		pthread_cond_wait(&cond, &mutex);
	pthread_cleanup_pop(1);
	pthread_cleanup_pop(1);
	return name;
}

static void *wait_sem(void *name)
{
	pthread_cleanup_push(note, name);
	note("[");
	sem_wait(&sem);
	pthread_cleanup_pop(1);
	return name;
}

static void *wait_thread(void *name)
{
	pthread_cleanup_push(note, name);
	note("{");
	pthread_join(sleeper, NULL);
	pthread_cleanup_pop(1);
	return name;
}

int main(void)
{
	static void *(*const work[])(void *) = {wait_cond, wait_cond, wait_sem, wait_sem, wait_thread};
	pthread_t threads[5];
	int cancelled = 0;
	void *result;
	sem_init(&sem, 0, 0);
	CHECK(!pthread_create(&sleeper, NULL, wait_cond, "z"));
	for (int i = 0; i < 5; i++) {
		CHECK(!pthread_create(&threads[i], NULL, work[i], &"abcde"[i]));
		work_a_little();
	}
	for (int i = 0; i < 5; i++) {
		work_a_little();
		CHECK(!pthread_cancel(threads[i]));
	}
	for (int i = 0; i < 5; i++) {
		CHECK(!pthread_join(threads[i], &result));
		cancelled += result == PTHREAD_CANCELED;
	}
	CHECK(!pthread_cancel(sleeper));
	CHECK(!pthread_join(sleeper, &result));
	printf("%s cancelled %d unlocked %d %d\n", line, cancelled, unlocked, pthread_mutex_trylock(&mutex));
	return 0;
}
