// Many threads at once, each with what a copy has to bring along: its own variables, a stack for handlers, locks of every kind
// that it holds over operations, a place in a file. Natively different: who comes when.
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define ROUNDS 6

static __thread long own;
static pthread_barrier_t together;
static pthread_mutex_t recursive, errorcheck, robust;
static long sum, wrong;
static volatile sig_atomic_t handled;

static void handler(int sig)
{
	handled += sig == SIGUSR1;
}

static void *work(void *arg)
{
	own = (long)arg;
	stack_t stack = {.ss_sp = malloc(SIGSTKSZ), .ss_size = SIGSTKSZ};
	sigaltstack(&stack, NULL);
	int fd = open("/proc/self/status", O_RDONLY);
	pthread_barrier_wait(&together);
	for (int i = 0; i < ROUNDS; i++) {
		char byte;
		pthread_mutex_lock(&recursive);
		pthread_mutex_lock(&recursive);
		pthread_mutex_lock(&errorcheck);
		wrong += pthread_mutex_lock(&errorcheck) != EDEADLK;
		pthread_mutex_lock(&robust);
		own += read(fd, &byte, 1);
		sum += own;
		pthread_kill(pthread_self(), SIGUSR1);
		pthread_mutex_unlock(&robust);
		wrong += pthread_mutex_unlock(&errorcheck) != 0;
		pthread_mutex_unlock(&recursive);
		wrong += pthread_mutex_unlock(&recursive) != 0;
	}
	close(fd);
	pthread_barrier_wait(&together);
	return (void *)own;
}

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 2;
	pthread_t *threads = calloc(count, sizeof *threads);
	pthread_mutexattr_t attr;
	struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
	sigaction(SIGUSR1, &action, NULL);
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&recursive, &attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ERRORCHECK);
	pthread_mutex_init(&errorcheck, &attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_NORMAL);
	pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&robust, &attr);
	pthread_barrier_init(&together, NULL, count);
	long joined = 0;
	for (int i = 0; i < count; i++)
		if (pthread_create(&threads[i], NULL, work, (void *)(long)i))
			return 1;
	for (int i = 0; i < count; i++) {
		void *result;
		pthread_join(threads[i], &result);
		joined += (long)result;
	}
	printf("%d threads: %ld %ld, %d handled, %ld wrong\n", count, sum, joined, (int)handled, wrong);
	return 0;
}
