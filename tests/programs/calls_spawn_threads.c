// Threads that make children by vfork and posix_spawn while others change memory: what a child is reported to have stored
// must not undo what somebody else did meanwhile.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum { MAKERS = 2, WRITERS = 2, ROUNDS = 8 };

static struct { unsigned long counters[WRITERS]; int told[MAKERS]; } shared; // all in one page
static int done;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *make(void *number)
{
	char *argv[] = {"true", NULL};
	uintptr_t n = (uintptr_t)number;
	unsigned long sum = 0;
	for (int i = 0; i < ROUNDS; i++) {
		pid_t pid;
		int status;
		int error = posix_spawn(&pid, i % 2 ? "/bin/true" : "/nonexistent", NULL, NULL, argv, environ);
		sum = sum * 7 + error;
		if (!error)
			waitpid(pid, &status, 0);
		volatile int *told = &shared.told[n];
		pid = vfork();
		if (pid == 0) {
			*told += 3;
			_exit(0);
		}
		waitpid(pid, &status, 0);
		sum += pid % 10;
	}
	pthread_mutex_lock(&lock);
	done++;
	pthread_mutex_unlock(&lock);
	return (void *)sum;
}

static void *change(void *number)
{
	uintptr_t n = (uintptr_t)number;
	unsigned long rounds = 0;
	for (int stop = 0; !stop; rounds++) {
		for (int i = 0; i < 20000; i++)
			shared.counters[n]++;
		pthread_mutex_lock(&lock);
		stop = done == MAKERS;
		pthread_mutex_unlock(&lock);
	}
	return (void *)(shared.counters[n] - rounds * 20000); // 0, unless an old value came back
}

int main(void)
{
	pthread_t makers[MAKERS], writers[WRITERS];
	void *result;
	for (uintptr_t i = 0; i < WRITERS; i++)
		pthread_create(&writers[i], NULL, change, (void *)i);
	for (uintptr_t i = 0; i < MAKERS; i++)
		pthread_create(&makers[i], NULL, make, (void *)i);
	for (int i = 0; i < MAKERS; i++) {
		pthread_join(makers[i], &result);
		printf("%p %d\n", result, shared.told[i]);
	}
	for (int i = 0; i < WRITERS; i++) {
		pthread_join(writers[i], &result);
		printf("lost %ld of %lu\n", (long)result, shared.counters[i]);
	}
	return 0;
}
