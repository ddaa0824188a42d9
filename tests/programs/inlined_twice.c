// A function inlined in another one that is inlined: GDB steps into both at one address. The same natively each time.
#include <stdio.h>

static volatile int sum;

static inline __attribute__((always_inline)) void inner(int number)
{
	sum += number;
}

static inline __attribute__((always_inline)) void outer(int number)
{
	inner(number);
	sum *= 2;
}

int main(void)
{
	for (int i = 0; i < 3; i++) {
		puts("again");
		outer(i);
	}
	return sum;
}
