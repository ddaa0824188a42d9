// Holds locks of every kind while it makes calls, alone, and prints the time and what they say of themselves.
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static unsigned long sum;

static void look(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	sum = sum * 31 + now.tv_nsec + getppid();
}

static void mutexes(void)
{
	static const int types[] = {PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_ERRORCHECK, PTHREAD_MUTEX_ADAPTIVE_NP};
	for (unsigned i = 0; i < 16; i++) {
		pthread_mutexattr_t attr;
		pthread_mutex_t *m = malloc(sizeof *m);
		pthread_mutexattr_init(&attr);
		pthread_mutexattr_settype(&attr, types[i % 4]);
		pthread_mutexattr_setrobust(&attr, i & 4 ? PTHREAD_MUTEX_ROBUST : PTHREAD_MUTEX_STALLED);
		pthread_mutexattr_setprotocol(&attr, i & 8 ? PTHREAD_PRIO_INHERIT : PTHREAD_PRIO_NONE);
		pthread_mutex_init(m, &attr);
		pthread_mutex_lock(m);
		look();
		if (i % 4 == 1) {
			pthread_mutex_lock(m);
			look();
			pthread_mutex_unlock(m);
		}
		pthread_mutex_unlock(m);
		look();
		pthread_mutex_destroy(m);
		look();
		free(m);
	}
}

static void rwlocks(void)
{
	pthread_rwlock_t *l = malloc(sizeof *l);
	pthread_rwlock_init(l, NULL);
	for (int i = 0; i < 3; i++) {
		pthread_rwlock_wrlock(l);
		look();
		pthread_rwlock_unlock(l);
		look();
		pthread_rwlock_rdlock(l);
		pthread_rwlock_rdlock(l);
		look();
		pthread_rwlock_unlock(l);
		look();
		pthread_rwlock_unlock(l);
		look();
	}
	pthread_rwlock_destroy(l);
	look();
}

static void others(void)
{
	pthread_cond_t *unused = malloc(sizeof *unused), *used = malloc(sizeof *used);
	pthread_mutex_t *m = malloc(sizeof *m);
	pthread_barrier_t *b = malloc(sizeof *b);
	pthread_spinlock_t *s = malloc(sizeof(int));
	sem_t *sem = malloc(sizeof *sem);
	struct timespec past = {0};
	pthread_cond_init(unused, NULL);
	look();
	pthread_cond_destroy(unused);
	look();
	pthread_cond_init(used, NULL);
	pthread_mutex_init(m, NULL);
	pthread_mutex_lock(m);
	pthread_cond_signal(used);
	pthread_cond_timedwait(used, m, &past);
	look();
	pthread_mutex_unlock(m);
	pthread_cond_destroy(used);
	look();
	pthread_barrier_init(b, NULL, 1);
	for (int i = 0; i < 3; i++) {
		pthread_barrier_wait(b);
		look();
	}
	pthread_barrier_destroy(b);
	look();
	pthread_spin_init(s, PTHREAD_PROCESS_PRIVATE);
	pthread_spin_lock(s);
	look();
	pthread_spin_unlock(s);
	look();
	sem_init(sem, 0, 2);
	sem_wait(sem);
	look();
	sem_timedwait(sem, &past);
	sem_timedwait(sem, &past);
	look();
	sem_post(sem);
	look();
	sem_destroy(sem);
	look();
}

int main(void)
{
	mutexes();
	rwlocks();
	others();
	printf("%lx\n", sum);
	return 0;
}
