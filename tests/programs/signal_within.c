// Handlers that run while their thread waits for a mutex, a condition variable and another thread; natively different: how
// often, and the times that they read.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turn = PTHREAD_COND_INITIALIZER;
static volatile int ticks, go;
static volatile long where;

static void handler(int sig)
{
	struct timespec now;
	(void)sig;
	clock_gettime(CLOCK_MONOTONIC, &now);
	where = where * 31 + now.tv_nsec % 1000;
	ticks++;
}

static void *other(void *arg)
{
	(void)arg;
	pthread_mutex_lock(&lock);
	while (ticks < 10)
		usleep(300);
	pthread_mutex_unlock(&lock);
	while (ticks < 20)
		usleep(300);
	pthread_mutex_lock(&lock);
	go = ticks;
	pthread_cond_signal(&turn);
	pthread_mutex_unlock(&lock);
	while (ticks < 30)
		usleep(300);
	return (void *)(long)ticks;
}

int main(void)
{
	struct sigaction act = {.sa_handler = handler, .sa_flags = SA_RESTART};
	struct itimerval every = {{0, 2000}, {0, 2000}}, none = {{0, 0}, {0, 0}};
	sigset_t alarm;
	pthread_t thread;
	void *seen;
	sigaction(SIGALRM, &act, NULL);
	sigemptyset(&alarm);
	sigaddset(&alarm, SIGALRM);
	pthread_sigmask(SIG_BLOCK, &alarm, NULL);
	pthread_create(&thread, NULL, other, NULL);
	pthread_sigmask(SIG_UNBLOCK, &alarm, NULL);
	usleep(1000);
	setitimer(ITIMER_REAL, &every, NULL);
	pthread_mutex_lock(&lock);
	int first = ticks;
	while (!go)
		pthread_cond_wait(&turn, &lock);
	pthread_mutex_unlock(&lock);
	pthread_join(thread, &seen);
	setitimer(ITIMER_REAL, &none, NULL);
	printf("%d %d %ld %d %ld\n", first, go, (long)seen, ticks, where);
	return 0;
}
