// One function is called thousands of times between two operations: what was stored before that is far from the end of the
// segment, and at the bottom of its stack only the first call changes anything.
// Runs in: tests/timeline.
// May call: the C library.
// Owns: nothing.
#include <unistd.h>

volatile long mark;

__attribute__((noinline)) void often(void)
{
	__asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) static void stretch(long number)
{
	mark = number;
	for (int i = 0; i < 5000; i++)
		often();
}

__attribute__((noinline)) static void wipe(void)
{
	volatile char room[512];
	for (unsigned i = 0; i < sizeof room; i++)
		room[i] = 0;
}

int main(void)
{
	getppid();
	for (long number = 1; number <= 2; number++) {
		stretch(number);
		wipe();
		getppid();
	}
	return 0;
}
