// A global variable, a local one of the same name, and one that only its function can name. What natively differs is
// nothing.
#include <stdio.h>
#include <unistd.h>

long total;

static long inner(int n)
{
	static long calls;
	long total = n * 100;
	getppid();
	total += 1;
	calls += 10;
	return total + calls;
}

int main(void)
{
	long sum = 0;
	for (int i = 1; i <= 5; i++) {
		total += i;
		sum += inner(i);
	}
	printf("%ld %ld\n", total, sum);
	return 0;
}
