// Counts to a random number that is small: what natively differs is how far. Between the two there is no operation.
#include <stdint.h>
#include <stdio.h>
#include <sys/random.h>

static volatile uint64_t passes;

static void count_to(uint64_t goal)
{
	while (passes != goal)
		passes++;
}

int main(void)
{
	uint64_t goal = 0;
	uint8_t byte;
	if (getrandom(&byte, 1, 0) != 1)
		return 1;
	goal = byte;
	if (byte == 255) // never in a recording that a test keeps; an altered one says so
		goal = UINT64_MAX;
	count_to(goal);
	printf("%llu\n", (unsigned long long)passes);
	return 0;
}
