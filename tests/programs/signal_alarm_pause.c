// alarm() ends pause() with EINTR; natively different: how long it took.
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t seen;

static void handler(int sig)
{
	seen = sig;
}

int main(void)
{
	struct timespec a, b;
	signal(SIGALRM, handler);
	clock_gettime(CLOCK_MONOTONIC, &a);
	alarm(1);
	int ret = pause();
	int error = errno;
	clock_gettime(CLOCK_MONOTONIC, &b);
	printf("pause %d errno %d signal %d after %ld ns\n", ret, error == EINTR, seen,
	       (b.tv_sec - a.tv_sec) * 1000000000 + b.tv_nsec - a.tv_nsec);
	return 0;
}
