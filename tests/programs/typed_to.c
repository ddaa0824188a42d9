// Asks its terminal for two lines and for the end of the input; between them it computes, and does not look.
// Runs in: tests/gdb.
// May call: the C library.
// Owns: nothing.
#include <stdio.h>
#include <unistd.h>

static volatile unsigned long sum;

static void compute(void)
{
	for (unsigned at = 0; at < 1000; at++)
		sum += at;
}

int main(void)
{
	char first[80] = "", second[80] = "";
	printf("a terminal: %d\nfirst? ", isatty(0));
	fflush(stdout);
	if (!fgets(first, sizeof first, stdin))
		return 1;
	compute();
	printf("second? ");
	fflush(stdout);
	if (!fgets(second, sizeof second, stdin))
		return 2;
	printf("got %s and %s", first, second);
	while (getchar() != EOF)
		;
	puts("at the end");
	return 0;
}
