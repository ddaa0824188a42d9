// A child that is forked while other threads run, with a lock in its hands: it has threads and waits of its own.
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sync.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static atomic_int enough;
static long turns;

static void *busy(void *arg)
{
	(void)arg;
	while (!atomic_load(&enough)) {
		pthread_mutex_lock(&mutex);
		turns++;
		pthread_mutex_unlock(&mutex);
	}
	return NULL;
}

static void *in_child(void *arg)
{
	pthread_mutex_lock(&mutex);
	struct timespec until = soon(CLOCK_REALTIME, 2000);
	int ret = pthread_cond_timedwait(&never, &mutex, &until);
	pthread_mutex_unlock(&mutex);
	return ret == ETIMEDOUT ? arg : NULL;
}

static void child(void)
{
	pthread_t threads[2];
	void *result = NULL;
	int good = 0;
	pthread_mutex_unlock(&mutex);
	for (int i = 0; i < 2; i++)
		CHECK(pthread_create(&threads[i], NULL, in_child, &good) == 0);
	for (int i = 0; i < 2; i++) {
		pthread_join(threads[i], &result);
		good += result == &good;
	}
	_exit(good);
}

int main(void)
{
	pthread_t threads[2];
	int status;
	for (int i = 0; i < 2; i++)
		CHECK(pthread_create(&threads[i], NULL, busy, NULL) == 0);
	for (int i = 0; i < 5; i++) {
		pthread_mutex_lock(&mutex);
		pid_t pid = fork();
		if (pid == 0)
			child();
		pthread_mutex_unlock(&mutex);
		waitpid(pid, &status, 0);
		printf("%d ", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
	}
	atomic_store(&enough, 1);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	printf("%s\n", turns ? "and others ran" : "alone");
	return 0;
}
