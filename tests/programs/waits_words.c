// Threads that wait for words by system calls of their own: moved from one word to another; for the end of a thread that has named its
// word; and one whose time is up in a handler, while the lock that it waits for is given.
#include "sync.h"

#include <linux/futex.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

static int from, to, ended = 1, early;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static struct timespec limit;

static void *wait_to_be_moved(void *arg)
{
	syscall(SYS_futex, &from, FUTEX_WAIT, 0, NULL);
	pthread_mutex_lock(&mutex);
	early += !to;
	pthread_mutex_unlock(&mutex);
	return arg;
}

static void move(int how)
{
	pthread_t thread[3];
	from = to = early = 0;
	for (int i = 0; i < 3; i++)
		pthread_create(&thread[i], NULL, wait_to_be_moved, NULL);
	usleep(150000);
	long moved = syscall(SYS_futex, &from, how, 1, 1, &to, 0);
	usleep(100000);
	pthread_mutex_lock(&mutex);
	to = 1;
	pthread_mutex_unlock(&mutex);
	long woken = syscall(SYS_futex, &to, FUTEX_WAKE, 9), rest = syscall(SYS_futex, &from, FUTEX_WAKE, 9);
	for (int i = 0; i < 3; i++)
		pthread_join(thread[i], NULL);
	printf("moved %ld early %d woken %ld rest %ld\n", moved, early, woken, rest);
	long odd = syscall(SYS_futex, &from, how, 1, 1, (char *)&to + 1, 0), error = errno;
	long unlike = syscall(SYS_futex, &from, FUTEX_CMP_REQUEUE, 1, 1, &to, 5);
	printf("odd %ld %ld unlike %ld %d\n", odd, error, unlike, errno);
}

static void *name_word(void *arg)
{
	usleep(50000);
	syscall(SYS_set_tid_address, &ended);
	return arg;
}

static void handle(int sig)
{
	struct timespec nap = {0, 300000000};
	(void)sig;
	nanosleep(&nap, NULL);
}

static void *read_late(void *arg)
{
	limit = soon(CLOCK_REALTIME, 200000);
	printf("late %d\n", pthread_rwlock_timedrdlock(&rwlock, &limit));
	return arg;
}

int main(void)
{
	struct sigaction act = {.sa_handler = handle};
	pthread_t thread;
	move(FUTEX_REQUEUE);
	move(FUTEX_CMP_REQUEUE);
	sigaction(SIGUSR1, &act, NULL);
	pthread_rwlock_wrlock(&rwlock);
	pthread_create(&thread, NULL, read_late, NULL);
	usleep(100000);
	pthread_kill(thread, SIGUSR1);
	usleep(50000);
	pthread_rwlock_unlock(&rwlock);
	pthread_join(thread, NULL);
	fflush(stdout);
	pthread_create(&thread, NULL, name_word, NULL);
	while (ended)
		syscall(SYS_futex, &ended, FUTEX_WAIT, 1, NULL);
	write(1, "ended\n", 6);
	_exit(0);
}
