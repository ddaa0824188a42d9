// Signals to threads that are about to end; natively different: how many of them each one still got.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define SIGNALS 3

static __thread volatile unsigned got;

static void handler(int sig)
{
	(void)sig;
	got++;
}

static void *compute(void *arg)
{
	for (volatile unsigned i = 0; i < (unsigned)(unsigned long)arg; i++)
		;
	return (void *)(unsigned long)got;
}

int main(int argc, char **argv)
{
	int threads = argc > 1 ? atoi(argv[1]) : 200;
	struct sigaction act = {.sa_handler = handler};
	unsigned sum = 0;
	sigaction(SIGUSR1, &act, NULL);
	for (unsigned i = 0; i < (unsigned)threads; i++) {
		pthread_t thread;
		void *last;
		pthread_create(&thread, NULL, compute, (void *)(unsigned long)(i % 97 * 37));
		for (volatile unsigned k = 0; k < i * 7919 % 4000; k++)
			;
		for (int k = 0; k < SIGNALS; k++)
			pthread_kill(thread, SIGUSR1);
		pthread_join(thread, &last);
		sum = sum * 31 + (unsigned)(unsigned long)last;
	}
	printf("%u\n", sum);
	return 0;
}
