// A handler that interrupts a library function which waits makes a child; in the child the function goes on, too.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static sem_t sem, ready;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_t waiter;
static pid_t child;
static int in_child;

static void on_signal(int sig)
{
	(void)sig;
	child = fork();
	if (child == 0) {
		in_child = 1;
		sem_post(&sem); // nobody else is left who could
	}
}

static void pause_for(long ms)
{
	nanosleep(&(struct timespec){0, ms * 1000000}, NULL);
}

static void *interrupt(void *unused)
{
	sem_wait(&ready);
	for (int i = 0; i < 3; i++) {
		pause_for(20);
		pthread_kill(waiter, SIGUSR1);
		pause_for(60);
		sem_post(&sem);
		sem_wait(&ready);
	}
	return unused;
}

int main(void)
{
	struct sigaction act = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	pthread_t thread;
	sigaction(SIGUSR1, &act, NULL);
	waiter = pthread_self();
	pthread_create(&thread, NULL, interrupt, NULL);
	for (int i = 0; i < 3; i++) {
		int status = 0;
		sem_post(&ready);
		int ret = sem_wait(&sem);
		if (in_child) {
			pthread_mutex_lock(&mutex);
			pthread_mutex_unlock(&mutex);
			_exit(ret ? 100 : 40 + i);
		}
		int got = waitpid(child, &status, 0) == child;
		printf("%d: parent %d, child %d status %x\n", i, ret, got, status);
	}
	sem_post(&ready);
	pthread_join(thread, NULL);
	return 0;
}
