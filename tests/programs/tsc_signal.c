// A timer's signals in a loop that has no operation but the reading of the counter; the handler reads it, too. What
// natively differs from run to run are the counts.
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/time.h>

static volatile uint64_t seen;
static volatile int alarms;

static uint64_t counter(void)
{
	uint32_t low, high;
	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
	return (uint64_t)high << 32 | low;
}

static void on_alarm(int sig)
{
	(void)sig;
	seen = seen * 31 + counter();
	alarms++;
}

int main(void)
{
	struct itimerval every = {{0, 3000}, {0, 3000}};
	uint64_t rounds = 0, sum = 0;
	signal(SIGALRM, on_alarm);
	setitimer(ITIMER_REAL, &every, NULL);
	while (alarms < 8) {
		sum = sum * 31 + counter() + alarms;
		rounds++;
	}
	printf("%llu rounds, %llx, %llx\n", (unsigned long long)rounds, (unsigned long long)sum, (unsigned long long)seen);
	return 0;
}
