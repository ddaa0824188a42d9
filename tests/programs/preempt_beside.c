// One thread computes without an operation, and is asked to give way; signals come to the other, which waits for its turn.
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/time.h>

#define TURNS 20
#define WORK 30000000

static volatile sig_atomic_t alarms;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static unsigned long turns;

static void count(int sig)
{
	(void)sig;
	alarms++;
}

static bool turn(unsigned long more)
{
	pthread_mutex_lock(&mutex);
	turns += more;
	bool again = turns < TURNS;
	pthread_mutex_unlock(&mutex);
	return again;
}

static void *compute(void *arg)
{
	(void)arg;
	do
		for (volatile int i = 0; i < WORK; i++)
			;
	while (turn(1));
	return NULL;
}

int main(void)
{
	const struct itimerval often = {{0, 2000}, {0, 2000}}, never = {{0, 0}, {0, 0}};
	sigset_t alarm;
	pthread_t thread;
	signal(SIGALRM, count);
	sigemptyset(&alarm);
	sigaddset(&alarm, SIGALRM);
	pthread_sigmask(SIG_BLOCK, &alarm, NULL);
	pthread_create(&thread, NULL, compute, NULL);
	pthread_sigmask(SIG_UNBLOCK, &alarm, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	while (turn(0))
		sched_yield(); // the other one comes next
	setitimer(ITIMER_REAL, &never, NULL);
	pthread_join(thread, NULL);
	printf("%d alarms, %lu turns\n", alarms, turns);
}
