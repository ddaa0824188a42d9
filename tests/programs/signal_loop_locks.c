// A loop that a signal ends, behind the use of locks of every kind, some of them together with a thread that is gone;
// natively different: how far it came. The argument chooses the loop: "counter", or "reused" for one that computes in the
// memory where a lock was.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>

static volatile sig_atomic_t stop;
static volatile unsigned long count;
static union { pthread_rwlock_t lock; volatile unsigned long words[7]; } both = {PTHREAD_RWLOCK_INITIALIZER};
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER, held = PTHREAD_RWLOCK_INITIALIZER;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, adaptive = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP, robust;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t barrier;
static int ready;

static void handler(int sig)
{
	(void)sig;
	stop++;
}

static void *other(void *arg)
{
	pthread_mutex_lock(&mutex);
	ready = 1;
	pthread_cond_signal(&condition);
	pthread_mutex_unlock(&mutex);
	pthread_barrier_wait(&barrier);
	for (int i = 0; i < 100; i++) {
		pthread_mutex_lock(&adaptive);
		pthread_mutex_unlock(&adaptive);
	}
	return arg;
}

static void use_locks(void)
{
	pthread_t thread;
	pthread_mutexattr_t attr;
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&robust, &attr);
	pthread_barrier_init(&barrier, NULL, 2);
	pthread_create(&thread, NULL, other, NULL);
	pthread_mutex_lock(&mutex);
	while (!ready)
		pthread_cond_wait(&condition, &mutex);
	pthread_mutex_unlock(&mutex);
	pthread_barrier_wait(&barrier);
	for (int i = 0; i < 100; i++) {
		pthread_mutex_lock(&adaptive);
		pthread_mutex_unlock(&adaptive);
	}
	pthread_join(thread, NULL);
	pthread_rwlock_wrlock(&lock);
	pthread_rwlock_unlock(&lock);
	pthread_rwlock_rdlock(&held);
	pthread_mutex_lock(&robust);
	pthread_rwlock_wrlock(&both.lock);
	pthread_rwlock_unlock(&both.lock);
}

int main(int argc, char **argv)
{
	struct itimerval once = {{0, 0}, {0, 60000}};
	signal(SIGPROF, handler);
	use_locks();
	setitimer(ITIMER_PROF, &once, NULL);
	bool reused = argc > 1 && !strcmp(argv[1], "reused");
	if (reused) {
		memset((void *)both.words, 0, sizeof both.words);
		while (!stop)
			both.words[1] += ++both.words[0] & 7;
	} else {
		while (!stop)
			count++;
	}
	printf("%lu %lu %lu\n", count, reused ? both.words[0] : 0, reused ? both.words[1] : 0);
	return 0;
}
