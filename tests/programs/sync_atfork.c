// Handlers around fork, with locks, while other threads run: who is in the middle of what when the copy is made.
#include "sync.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#define FORKS 4

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int stop, before, behind;

static void prepare(void)
{
	pthread_mutex_lock(&mutex);
	before++;
}

static void parent(void)
{
	behind++;
	pthread_mutex_unlock(&mutex);
}

static void child(void)
{
	pthread_mutex_unlock(&mutex);
}

static void *work(void *arg)
{
	for (int stopped = 0; !stopped;) {
		pthread_mutex_lock(&mutex);
		mark("abc"[(long)arg]);
		stopped = stop;
		pthread_mutex_unlock(&mutex);
		work_a_little();
	}
	return arg;
}

int main(void)
{
	pthread_t threads[3];
	int sum = 0;
	CHECK(!pthread_atfork(prepare, parent, child));
	for (long i = 0; i < 3; i++)
		CHECK(!pthread_create(&threads[i], NULL, work, (void *)i));
	for (int i = 0; i < FORKS; i++) {
		int status;
		pid_t pid = fork();
		if (!pid) {
			// The copy has the lock's state of one moment, in which nobody else was inside.
			pthread_mutex_lock(&mutex);
			_exit(10 + i);
		}
		CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
		sum += WEXITSTATUS(status);
		work_a_little();
	}
	pthread_mutex_lock(&mutex);
	stop = 1;
	pthread_mutex_unlock(&mutex);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	printf("%d %d %d %s\n", sum, before, behind, line);
	return 0;
}
