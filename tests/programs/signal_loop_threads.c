// A loop without operations beside a thread that waits for a mutex; natively different: how far the loop came.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
#include <unistd.h>

static volatile sig_atomic_t stop;
static volatile unsigned long count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void handler(int sig)
{
	(void)sig;
	stop = 1;
}

static void *other(void *arg)
{
	(void)arg;
	pthread_mutex_lock(&lock);
	count += 1000000000000;
	pthread_mutex_unlock(&lock);
	return NULL;
}

int main(void)
{
	struct itimerval once = {{0, 0}, {0, 50000}};
	sigset_t alarm;
	pthread_t thread;
	sigemptyset(&alarm);
	sigaddset(&alarm, SIGPROF);
	signal(SIGPROF, handler);
	pthread_mutex_lock(&lock);
	pthread_sigmask(SIG_BLOCK, &alarm, NULL);
	pthread_create(&thread, NULL, other, NULL);
	pthread_sigmask(SIG_UNBLOCK, &alarm, NULL);
	usleep(20000);
	setitimer(ITIMER_PROF, &once, NULL);
	while (!stop)
		count++;
	pthread_mutex_unlock(&lock);
	pthread_join(thread, NULL);
	printf("%lu\n", count);
	return 0;
}
