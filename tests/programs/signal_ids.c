// Threads that have the C library name each other to the kernel, by ids out of its descriptors, and handlers that interrupt them there: ids
// stay in registers, in handlers' frames and on stacks; with "names" also as text.
// Natively different: those ids; with "counts" also what each handler keeps on its stack, the time stamp counter. Nothing is printed of it.
#include "sync.h"

#include <sched.h>
#include <signal.h>
#include <unistd.h>

enum { THREADS = 4, ROUNDS = 4 };

static pthread_t threads[THREADS];
static pthread_barrier_t everybody;
static _Thread_local volatile sig_atomic_t caught;
static int names, counts;

static void on_signal(int number)
{
	volatile unsigned kept = 0;
	(void)number;
	if (counts) // of the size of an id; no register keeps it
		__asm__ volatile("rdtsc; and $0x3fffff, %%eax; mov %%eax, %0; xor %%eax, %%eax; xor %%edx, %%edx" : "=m"(kept) : : "eax", "edx");
	getppid();
	caught++;
}

static void *work(void *arg)
{
	long me = (long)arg, next = (me + 1) % THREADS;
	char name[16];
	clockid_t clock;
	struct timespec now;
	cpu_set_t cpus;
	pthread_barrier_wait(&everybody);
	for (int i = 0; i < ROUNDS; i++) {
		snprintf(name, sizeof name, "%c-%d", (char)('a' + me), i);
		if (names)
			CHECK(!pthread_setname_np(threads[next], name));
		CHECK(!pthread_kill(threads[next], SIGUSR1));
		CHECK(!pthread_getcpuclockid(threads[next], &clock));
		CHECK(!clock_gettime(clock, &now));
		CHECK(!raise(SIGUSR1));
		CHECK(!pthread_getaffinity_np(threads[next], sizeof cpus, &cpus));
	}
	pthread_barrier_wait(&everybody);
	return (void *)(long)caught;
}

int main(int argc, char **argv)
{
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	names = argc > 1 && !strcmp(argv[1], "names");
	counts = argc > 1 && !strcmp(argv[1], "counts");
	CHECK(!sigaction(SIGUSR1, &action, NULL));
	pthread_barrier_init(&everybody, NULL, THREADS);
	for (long i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&threads[i], NULL, work, (void *)i));
	for (int i = 0; i < THREADS; i++) {
		void *result;
		pthread_join(threads[i], &result);
		printf("%d: %ld\n", i, (long)result);
	}
	return 0;
}
