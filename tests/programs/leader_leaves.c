// The main thread leaves, with a robust mutex in its hands; who joins it goes on, makes a thread and calls functions. Natively
// different: the process's id.
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int counter, died;
static __thread int mine;
static pthread_t first;
static pthread_mutex_t left;

__attribute__((noinline)) void add(int n)
{
	for (int i = 0; i < n; i++)
		counter++;
	mine += n;
}

static void *late(void *arg)
{
	add(7);
	return arg;
}

static void *heir(void *arg)
{
	pthread_t thread;
	pthread_join(first, NULL);
	add(5);
	died = pthread_mutex_lock(&left);
	if (died == EOWNERDEAD)
		pthread_mutex_consistent(&left);
	pthread_mutex_unlock(&left);
	pthread_create(&thread, NULL, late, NULL);
	pthread_join(thread, NULL);
	add(3);
	printf("%d %d %d %d\n", getpid(), counter, died == EOWNERDEAD, mine);
	exit(0);
	return arg;
}

int main(void)
{
	pthread_t thread;
	pthread_mutexattr_t robust;
	pthread_mutexattr_init(&robust);
	pthread_mutexattr_setrobust(&robust, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&left, &robust);
	first = pthread_self();
	add(2);
	pthread_mutex_lock(&left);
	pthread_create(&thread, NULL, heir, NULL);
	add(4);
	pthread_exit(NULL);
}
