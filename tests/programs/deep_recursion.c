// A recursion of 150 calls, without an operation in between.
// Runs in: tests/gdb.
// May call: the kernel.
// Owns: nothing.
#include <unistd.h>

static long total;

__attribute__((noinline)) static long down(long n)
{
	long here = 2 * n;
	total += here;
	if (n)
		here += down(n - 1);
	return here; // behind the call
}

int main(void)
{
	long sum;
	if (write(1, "", 0))
		return 1;
	sum = down(150); // the first call
	if (write(1, "", 0)) // behind all
		return 1;
	return sum != total;
}
