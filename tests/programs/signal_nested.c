// A handler that is interrupted by another signal; natively different: where in the handler, and the times.
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static char trace[4096];
static volatile int depth, deepest, outer, inner;

static void put(char c)
{
	size_t n = strlen(trace);
	if (n + 1 < sizeof trace)
		trace[n] = c;
}

static void on_alarm(int sig)
{
	(void)sig;
	inner++;
	put('a' + depth);
}

static void on_usr1(int sig)
{
	(void)sig;
	outer++;
	if (++depth > deepest)
		deepest = depth;
	for (int i = 0; i < 40; i++) {
		struct timespec now, pause = {0, 50000};
		clock_gettime(CLOCK_MONOTONIC, &now);
		nanosleep(&pause, NULL);
		put('0' + now.tv_nsec % 10);
	}
	depth--;
}

int main(void)
{
	struct sigaction act = {.sa_handler = on_usr1, .sa_flags = SA_NODEFER};
	struct itimerval every = {{0, 1000}, {0, 1000}};
	sigaction(SIGUSR1, &act, NULL);
	act.sa_handler = on_alarm;
	act.sa_flags = 0;
	sigaction(SIGALRM, &act, NULL);
	setitimer(ITIMER_REAL, &every, NULL);
	for (int i = 0; i < 5; i++)
		kill(getpid(), SIGUSR1);
	every = (struct itimerval){{0, 0}, {0, 0}};
	setitimer(ITIMER_REAL, &every, NULL);
	printf("outer %d inner %d deepest %d %s\n", outer, inner, deepest, trace);
	return 0;
}
