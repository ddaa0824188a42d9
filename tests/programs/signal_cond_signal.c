// A thread that signals a condition variable under fire: pthread_cond_signal itself waits, now and then, for threads that it
// woke before, and its handler may come then.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define WAITERS 6

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static volatile int over, handled;
static pthread_t signaller;
static int woken;

static void on_signal(int sig)
{
	(void)sig;
	handled++;
}

static sem_t fired;

static void *wait_for(void *unused)
{
	pthread_mutex_lock(&mutex);
	while (!over) {
		pthread_cond_wait(&cond, &mutex);
		woken++;
	}
	pthread_mutex_unlock(&mutex);
	return unused;
}

static void *fire(void *unused)
{
	while (sem_trywait(&fired)) {
		pthread_kill(signaller, SIGUSR1);
		usleep(50);
	}
	return unused;
}

int main(int argc, char **argv)
{
	struct sigaction act = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	int rounds = argc > 1 ? atoi(argv[1]) : 3000;
	pthread_t waiters[WAITERS], gun;
	sigaction(SIGUSR1, &act, NULL);
	signaller = pthread_self();
	for (int i = 0; i < WAITERS; i++)
		pthread_create(&waiters[i], NULL, wait_for, NULL);
	pthread_create(&gun, NULL, fire, NULL);
	for (int i = 0; i < rounds || handled < 10; i++) { // the others may get no processor for long
		pthread_cond_signal(&cond); // without the mutex: waiters come and go meanwhile
		if (i % 4 == 0)
			sched_yield();
	}
	pthread_mutex_lock(&mutex);
	over = 1;
	pthread_mutex_unlock(&mutex);
	sem_post(&fired);
	pthread_join(gun, NULL);
	pthread_cond_broadcast(&cond);
	for (int i = 0; i < WAITERS; i++)
		pthread_join(waiters[i], NULL);
	printf("%d %d\n", woken, handled);
	return 0;
}
