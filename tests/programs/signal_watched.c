// A loop without operations that a signal ends, and that stores now and then. Natively different: how far it came.
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>

unsigned long marks, before[4];
static volatile sig_atomic_t stop;

static void handler(int sig)
{
	(void)sig;
	stop = 1;
}

int main(void)
{
	struct itimerval once = {{0, 0}, {0, 60000}};
	volatile unsigned long count = 0;
	signal(SIGALRM, handler);
	for (int i = 0; i < 4; i++)
		before[i] = i + 1;
	setitimer(ITIMER_REAL, &once, NULL);
	while (!stop || marks <= 20) // however little of the time was ours
		if (++count % 65536 == 0)
			marks++;
	printf("%lu %lu\n", count, marks);
	return 0;
}
