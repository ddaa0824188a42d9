// An interval timer ticks while the program reads the clock and sleeps; natively different: how many ticks fall where.
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t ticks;
static volatile long long where;

static void handler(int sig)
{
	struct timespec now;
	(void)sig;
	ticks++;
	clock_gettime(CLOCK_MONOTONIC, &now);
	where += now.tv_nsec;
}

int main(void)
{
	struct sigaction act = {.sa_handler = handler, .sa_flags = SA_RESTART};
	struct itimerval every = {{0, 1500}, {0, 1500}};
	long at = 0, turns = 0, interrupted = 0;
	sigaction(SIGALRM, &act, NULL);
	setitimer(ITIMER_REAL, &every, NULL);
	while (ticks < 60) {
		struct timespec now, pause = {0, 20000};
		clock_gettime(CLOCK_REALTIME, &now);
		at = at * 31 + ticks * (now.tv_nsec & 7);
		turns++;
		if (nanosleep(&pause, &pause) < 0 && errno == EINTR)
			interrupted += pause.tv_nsec;
	}
	every = (struct itimerval){{0, 0}, {0, 0}};
	setitimer(ITIMER_REAL, &every, NULL);
	printf("ticks %d turns %ld at %ld rest %ld where %lld\n", ticks, turns, at, interrupted, where);
	return 0;
}
