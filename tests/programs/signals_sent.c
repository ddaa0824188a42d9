// Signals for `catch signal`: of two threads, one with a value, one that its handler resets, and one in the middle of a loop.
// Runs in: tests/gdb.
// May call: the kernel.
// Owns: nothing.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static volatile int handled, value;

static void with_info(int number, siginfo_t *info, void *context)
{
	value = info->si_value.sival_int;
	handled += number + !context;
}

static void plain(int number)
{
	handled += number;
}

static void *other(void *arg)
{
	pthread_kill(pthread_self(), SIGUSR2);
	return arg;
}

int main(void)
{
	struct sigaction info = {.sa_sigaction = with_info, .sa_flags = SA_SIGINFO};
	struct sigaction once = {.sa_handler = plain, .sa_flags = SA_RESETHAND};
	pthread_t thread;
	sigaction(SIGUSR1, &info, NULL);
	sigaction(SIGUSR2, &(struct sigaction){.sa_handler = plain}, NULL);
	sigaction(SIGTERM, &once, NULL);
	sigqueue(getpid(), SIGUSR1, (union sigval){.sival_int = 42});
	handled++;
	pthread_create(&thread, NULL, other, NULL);
	pthread_join(thread, NULL);
	raise(SIGTERM);
	printf("handled %d, value %d\n", handled, value);
	return 0;
}
