// Computes for at least as many seconds of processor time as the argument says, without an operation; a variable changes in front of that and behind it.
// Runs in: tests/gdb.
// May call: the kernel.
// Owns: nothing.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static volatile unsigned long passes;
int place;
int steps[3];

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); // others may have the processor meanwhile
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

__attribute__((noinline)) static void compute(unsigned long times)
{
	for (unsigned long i = 0; i < times; i++)
		passes++;
}

__attribute__((noinline)) void never(int number)
{
	place = number;
}

__attribute__((noinline)) void meet(int number)
{
	int *step = &steps[number];
	*step = number + 1;
	if (write(1, "", 0))
		never(number);
}

int main(int argc, char **argv)
{
	double wanted = argc > 1 ? atof(argv[1]) : 0.5, began = now();
	unsigned long times = 1 << 20;
	while (compute(times), now() - began < 0.05)
		times *= 2;
	double each = 1;
	for (int i = 0; i < 8; i++) { // what others take of the processor is in some of these, but not in all
		double start = now();
		compute(times);
		double took = (now() - start) / (double)times;
		each = took < each ? took : each;
	}
	place = 1;
	meet(0);
	compute((unsigned long)(wanted / each));
	meet(1);
	place = 2;
	meet(2);
	if (place == 3)
		never(argc);
	printf("%d\n", place);
	return 0;
}
