// Operations and code that runs on behind them: a moment there has a name that more operations must not change.
#include <semaphore.h>
#include <stdio.h>
#include <unistd.h>

static volatile int number;
static sem_t given;

static void reached(int round)
{
	number = round;
}

static void behind(void)
{
	number += 10;
}

int main(void)
{
	reached(0);
	for (int round = 1; round <= 5; round++) {
		sem_post(&given);
		reached(round);
	}
	behind();
	getppid();
	behind();
	printf("%d\n", number);
	return 0;
}
