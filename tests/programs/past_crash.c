// A crash behind the last operation: it recurs in every replay, and functions can be called there.
#include <stdio.h>

volatile int count;
int *volatile nowhere;

int twice(int number)
{
	return 2 * number;
}

int main(void)
{
	puts("here");
	for (count = 0; count < 3; count++)
		twice(count);
	*nowhere = count;
	return 0;
}
