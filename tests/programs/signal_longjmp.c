// Handlers that leave by siglongjmp, many times; natively different: what was under way.
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static sigjmp_buf back;
static volatile long turns, jumps, sum;

static void handler(int sig)
{
	jumps++;
	siglongjmp(back, sig);
}

int main(void)
{
	struct itimerval once = {{0, 0}, {0, 700}};
	signal(SIGALRM, handler);
	while (jumps < 100) {
		if (sigsetjmp(back, 1)) {
			sum = sum * 31 + turns;
			continue;
		}
		setitimer(ITIMER_REAL, &once, NULL);
		for (;;) {
			struct timespec now;
			clock_gettime(CLOCK_MONOTONIC, &now);
			turns++;
		}
	}
	printf("jumps %ld turns %ld sum %ld\n", jumps, turns, sum);
	return 0;
}
