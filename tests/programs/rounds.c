// Threads of every kind beside each other, in rounds: two that share a lock, one that waits for a condition, one that reads a pipe,
// brief ones, a library that is opened in the second round. `round_done` is called at each end.
// args: rounds (3), exit status or `crash`, `alarms` for a signal that interrupts
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

enum { STEPS = 400, WORK = 3000 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t news = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t round_end;
static int pipes[2], rounds;
long total, seen, reads, sums[2];
volatile sig_atomic_t alarms;
int done;

static void on_alarm(int sig)
{
	(void)sig;
	alarms++;
}

static void *work(void *arg)
{
	long me = (long)arg;
	for (int round = 0; round < rounds; round++) {
		for (int step = 0; step < STEPS; step++) {
			for (int i = 0; i < WORK; i++)
				sums[me] = sums[me] * 31 + i;
			pthread_mutex_lock(&lock);
			long now = ++total;
			if (now % 50 == 0)
				pthread_cond_signal(&news);
			pthread_mutex_unlock(&lock);
			if (now % 20 == 0 && write(pipes[1], "x", 1) != 1)
				abort();
		}
		pthread_barrier_wait(&round_end);
		pthread_barrier_wait(&round_end);
	}
	return NULL;
}

static void *wait_for_news(void *arg)
{
	pthread_mutex_lock(&lock);
	while (!done) {
		pthread_cond_wait(&news, &lock);
		seen = total;
	}
	pthread_mutex_unlock(&lock);
	return arg;
}

static void *read_all(void *arg)
{
	char buffer[16];
	ssize_t n;
	while ((n = read(pipes[0], buffer, sizeof buffer)) > 0)
		reads += n;
	return arg;
}

static void *brief(void *arg)
{
	char *text = malloc(100);
	snprintf(text, 100, "thread %ld", (long)arg);
	long size = (long)strlen(text);
	free(text);
	return (void *)size;
}

__attribute__((noinline)) void round_done(int round)
{
	printf("round %d: %ld\n", round, total);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	pthread_t workers[2], waiter, reader;
	struct itimerval every = {{0, 20000}, {0, 20000}};
	struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
	rounds = argc > 1 ? atoi(argv[1]) : 3;
	if (pipe(pipes))
		return 1;
	sigaction(SIGALRM, &action, NULL);
	pthread_barrier_init(&round_end, NULL, 3);
	for (long i = 0; i < 2; i++)
		pthread_create(&workers[i], NULL, work, (void *)i);
	pthread_create(&waiter, NULL, wait_for_news, NULL);
	pthread_create(&reader, NULL, read_all, NULL);
	if (argc > 3 && !strcmp(argv[3], "alarms"))
		setitimer(ITIMER_REAL, &every, NULL);
	for (int round = 0; round < rounds; round++) {
		pthread_t one;
		void *size;
		pthread_create(&one, NULL, brief, (void *)(long)round);
		pthread_join(one, &size);
		if (round == 1 && !dlopen("libm.so.6", RTLD_NOW))
			return 2;
		pthread_barrier_wait(&round_end);
		round_done(round);
		pthread_barrier_wait(&round_end);
	}
	for (int i = 0; i < 2; i++)
		pthread_join(workers[i], NULL);
	pthread_mutex_lock(&lock);
	done = 1;
	pthread_cond_signal(&news);
	pthread_mutex_unlock(&lock);
	pthread_join(waiter, NULL);
	close(pipes[1]);
	pthread_join(reader, NULL);
	if (argc > 2 && !strcmp(argv[2], "crash"))
		*(volatile int *)0 = 1;
	return argc > 2 ? atoi(argv[2]) : 0;
}
