// One thread that uses what the C library locks.
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
	long sum = 0;
	for (int i = 0; i < 100; i++)
		sum += random();
	setenv("SUM", "1", 1);
	printf("%ld\n", sum);
	return 0;
}
