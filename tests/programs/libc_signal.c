// Handlers run in threads that wait for a lock inside the C library, also while the one who holds it waits for them.
#include "sync.h"

#include <dlfcn.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <ucontext.h>

enum { THREADS = 3, ROUNDS = 12, EACH = 3 };

static FILE *stream;
static sem_t handled;
static int stop; // under the stream's lock
static uintptr_t waits;
static uint64_t hashes[THREADS];
static unsigned inside[THREADS];
static __thread int me;

static void note(uint64_t x)
{
	hashes[me] = (hashes[me] ^ x) * 0x9e3779b97f4a7c15 + 1;
}

static void on_signal(int number, siginfo_t *info, void *context)
{
	struct timespec now;
	int before = errno;
	(void)number;
	uintptr_t pc = ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
	inside[me] += pc >= waits && pc - waits < 100;
	clock_gettime(CLOCK_MONOTONIC, &now);
	note(info->si_value.sival_int + now.tv_nsec);
	sem_post(&handled);
	errno = before;
}

static void *want(void *arg)
{
	me = (int)(long)arg;
	sem_post(&handled); // in front of that, a handler would take another thread's hash for its own
	for (int line = 0, done = 0; !done; line++) {
		flockfile(stream);
		done = stop;
		note(fprintf(stream, "%d:%d %016llx\n", me, line, (unsigned long long)hashes[me]));
		funlockfile(stream);
		for (int i = 0; i < 5; i++)
			note(random());
		work_a_little();
	}
	return NULL;
}

static void disturb(pthread_t *threads)
{
	for (int i = 0; i < THREADS * EACH; i++) {
		CHECK(!pthread_sigqueue(threads[i % THREADS], SIGUSR1, (union sigval){i}));
		CHECK(!sem_wait(&handled));
	}
}

int main(void)
{
	pthread_t threads[THREADS];
	struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};
	unsigned long sum = 0;
	unsigned seen = 0;
	char *text = NULL;
	size_t size = 0;
	waits = (uintptr_t)dlvsym(RTLD_DEFAULT, "__lll_lock_wait_private", "GLIBC_PRIVATE");
	stream = open_memstream(&text, &size);
	CHECK(waits && stream && !sem_init(&handled, 0, 0) && !sigaction(SIGUSR1, &action, NULL));
	for (long i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&threads[i], NULL, want, (void *)i));
	for (long i = 0; i < THREADS; i++)
		CHECK(!sem_wait(&handled));
	for (int round = 0; round < ROUNDS; round++) {
		flockfile(stream);
		disturb(threads); // most of them wait for the lock, which comes free only behind their handlers
		stop = round == ROUNDS - 1;
		funlockfile(stream);
		if (round < ROUNDS - 1)
			disturb(threads);
	}
	for (int i = 0; i < THREADS; i++) {
		CHECK(!pthread_join(threads[i], NULL));
		printf("%016llx ", (unsigned long long)hashes[i]);
		seen += inside[i];
	}
	fclose(stream);
	for (size_t i = 0; i < size; i++)
		sum = sum * 31 + (unsigned char)text[i];
	printf("%zu bytes, %016lx\n%u handlers in a wait for a lock\n", size, sum, seen);
	free(text);
	return 0;
}
