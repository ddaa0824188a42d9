// While the first thread waits for the second one, that one gets a signal.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static volatile sig_atomic_t number;

static void handler(int signal)
{
	number = signal;
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;

// It has the mutex only while the first thread waits.
static void *work(void *unused)
{
	pthread_mutex_lock(&mutex);
	getppid();
	raise(SIGUSR1);
	getppid();
	pthread_cond_signal(&condition);
	pthread_mutex_unlock(&mutex);
	return unused;
}

int main(void)
{
	pthread_t thread;
	signal(SIGUSR1, handler);
	pthread_mutex_lock(&mutex);
	pthread_create(&thread, NULL, work, NULL);
	pthread_cond_wait(&condition, &mutex);
	printf("%d\n", (int)number);
	return 0;
}
