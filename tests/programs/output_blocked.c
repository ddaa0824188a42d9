// Two threads write to an output that nobody reads; a signal gets one of them out of it.
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static char large[300000];
static volatile int handled;
static sem_t done;

static void on_signal(int sig)
{
	handled += sig != 0;
}

static void *fill(void *unused)
{
	for (size_t at = 0; at < sizeof large;) {
		ssize_t n = write(1, large + at, sizeof large - at);
		at += n > 0 ? n : 0;
	}
	return unused;
}

static void *interrupted(void *unused)
{
	ssize_t n = write(1, "second\n", 7);
	dprintf(2, "%zd %s, handled %d\n", n, n < 0 ? strerrorname_np(errno) : "", handled > 0);
	sem_post(&done);
	return unused;
}

static void pause_for(long ms)
{
	nanosleep(&(struct timespec){0, ms * 1000000}, NULL);
}

int main(void)
{
	struct sigaction act = {.sa_handler = on_signal};
	pthread_t first, second;
	memset(large, 'x', sizeof large);
	sigaction(SIGUSR1, &act, NULL);
	pthread_create(&first, NULL, fill, NULL);
	while (poll(&(struct pollfd){1, POLLOUT, 0}, 1, 0) > 0)
		pause_for(5);
	pthread_create(&second, NULL, interrupted, NULL);
	while (sem_trywait(&done)) { // it may not be there yet
		pause_for(50);
		pthread_kill(second, SIGUSR1);
	}
	pthread_join(second, NULL);
	pthread_join(first, NULL);
	return 0;
}
