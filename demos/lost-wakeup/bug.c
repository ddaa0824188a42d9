// A worker looks whether there is work, and then goes to sleep; who brings work wakes it up. Between the look and the
// sleep the lock is free: work that comes then wakes nobody, and the worker sleeps for ever.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t arrived = PTHREAD_COND_INITIALIZER;
static int jobs, done;

static int is_idle(void)
{
	pthread_mutex_lock(&lock);
	int idle = jobs == 0;
	pthread_mutex_unlock(&lock);
	return idle;
}

static void *worker(void *arg)
{
	while (done < 20) {
		if (is_idle()) {
			pthread_mutex_lock(&lock);
			pthread_cond_wait(&arrived, &lock);
			pthread_mutex_unlock(&lock);
		}
		pthread_mutex_lock(&lock);
		done += jobs;
		jobs = 0;
		pthread_mutex_unlock(&lock);
	}
	return arg;
}

static void bring(int job)
{
	pthread_mutex_lock(&lock);
	jobs += job;
	pthread_cond_signal(&arrived);
	pthread_mutex_unlock(&lock);
}

static int is_done(int job)
{
	pthread_mutex_lock(&lock);
	int yes = done > job;
	pthread_mutex_unlock(&lock);
	return yes;
}

int main(void)
{
	pthread_t thread;
	pthread_create(&thread, NULL, worker, NULL);
	for (int job = 0; job < 20; job++) {
		bring(1);
		for (int tries = 0; !is_done(job); tries++) {
			if (tries == 20) {
				fprintf(stderr, "%d jobs are done, %d waits, and the worker sleeps\n", done, jobs);
				abort();
			}
			usleep(10000);
		}
	}
	pthread_join(thread, NULL);
	return 0;
}
