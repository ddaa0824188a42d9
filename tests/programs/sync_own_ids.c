// Threads that name themselves by the ids they were told, and each other by those in the library's descriptors.
// Runs in: tests/sync.
// May call: the kernel.
// Owns: nothing.
#include "sync.h"

#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { THREADS = 8, ROUNDS = 4 };

static pthread_t threads[THREADS];
static pid_t told[THREADS];
static pthread_barrier_t everybody;
static _Thread_local volatile sig_atomic_t caught;

static void on_signal(int number)
{
	(void)number;
	caught++;
}

static void *work(void *arg)
{
	long me = (long)arg, next = (me + 1) % THREADS;
	cpu_set_t cpus;
	told[me] = gettid();
	pthread_barrier_wait(&everybody);
	for (int i = 0; i < ROUNDS; i++) {
		CHECK(!raise(SIGUSR1));
		CHECK(!pthread_kill(pthread_self(), SIGUSR1));
		CHECK(!pthread_kill(threads[next], SIGUSR2));
		CHECK(!syscall(SYS_tgkill, getpid(), told[next], SIGUSR2));
		CHECK(!sched_getaffinity(told[next], sizeof cpus, &cpus));
		CHECK(!pthread_getaffinity_np(threads[next], sizeof cpus, &cpus));
	}
	pthread_barrier_wait(&everybody);
	return (void *)(long)caught;
}

int main(void)
{
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	CHECK(!sigaction(SIGUSR1, &action, NULL));
	CHECK(!sigaction(SIGUSR2, &action, NULL));
	pthread_barrier_init(&everybody, NULL, THREADS);
	for (long i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&threads[i], NULL, work, (void *)i));
	for (int i = 0; i < THREADS; i++) {
		void *result;
		pthread_join(threads[i], &result);
		printf("%d: %d %ld\n", i, told[i], (long)result);
	}
	return 0;
}
