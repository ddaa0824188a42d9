// What it computes comes from the time stamp counter, which nobody records here: a replay computes something else.
#include <stdint.h>
#include <stdio.h>

#define LATE 100000000 // cycles, between two reads of the counter: as long as a person looks at the first stop

static volatile uint64_t first, second;
static volatile int number;

static void stands(void)
{
	number = 1;
}

static void never_again(void)
{
	number = 2;
}

int main(void)
{
	uint64_t before = __builtin_ia32_rdtsc();
	number = 3;
	first = before;
	number = 4;
	stands();
	second = __builtin_ia32_rdtsc();
	if (second - first > LATE)
		never_again();
	printf("%d\n", number);
	return 0;
}
