// A function that is inlined, called a thousand times.
#include <stdio.h>
long total;
static inline __attribute__((always_inline)) void add(long n)
{
	total += n;
	__asm__ volatile("" ::: "memory");
}
int main(void)
{
	puts("begin");
	for (long i = 0; i < 1000; i++)
		add(i);
	puts("end");
	return 0;
}
