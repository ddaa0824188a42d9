// A signal handler adds up two accounts. The program is in the middle of moving money when it comes: what the handler
// sees was never true.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

static volatile long here = 1000, there = 1000;
static volatile long sum = 2000;
static pid_t teller;

static void look(int signal __attribute__((unused)))
{
	if (sum == 2000)
		sum = here + there;
}

static void move(long amount)
{
	here -= amount;
	teller = getppid(); // the kernel takes the opportunity
	there += amount;
}

int main(void)
{
	struct itimerval often = {{0, 200}, {0, 200}};
	signal(SIGALRM, look);
	setitimer(ITIMER_REAL, &often, NULL);
	for (int i = 0; i < 2000000 && sum == 2000; i++)
		move(i % 2 ? 10 : -10);
	setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
	if (sum != 2000) {
		fprintf(stderr, "%ld and %ld were %ld\n", here, there, sum);
		abort();
	}
	return 0;
}
