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
	uint64_t word;
	if (getrandom(&word, sizeof word, 0) != sizeof word)
		return 1;
	count_to(word == UINT64_MAX ? word : word % 256); // the former only where a test says so
	printf("%llu of %016llx\n", (unsigned long long)passes, (unsigned long long)word);
	return 0;
}
