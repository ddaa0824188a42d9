// A handler that runs in a thread which waits: the wait ends with EINTR, or goes on where the handler lets it.
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>

#include "sync.h"

static sem_t seat;
static volatile sig_atomic_t handled;

static void handler(int sig)
{
	(void)sig;
	handled++;
}

static void *waiter(void *arg)
{
	(void)arg;
	int ret = sem_wait(&seat);
	printf("%s after %d, ", ret ? strerror(errno) : "taken", (int)handled);
	ret = sem_wait(&seat);
	printf("%s after %d\n", ret ? strerror(errno) : "taken", (int)handled);
	return NULL;
}

int main(void)
{
	pthread_t thread;
	struct sigaction action = {.sa_handler = handler};
	sem_init(&seat, 0, 0);
	CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
	CHECK(pthread_create(&thread, NULL, waiter, NULL) == 0);
	nap();
	pthread_kill(thread, SIGUSR1);
	nap();
	action.sa_flags = SA_RESTART;
	CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
	pthread_kill(thread, SIGUSR1);
	nap();
	sem_post(&seat);
	pthread_join(thread, NULL);
	return 0;
}
