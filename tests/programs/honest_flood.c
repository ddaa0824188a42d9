// Writes lines without end to speak of, then naps: somebody to interrupt, or to stop listening to.
#include <stdio.h>
#include <time.h>

int main(void)
{
	struct timespec nap = {0, 1000};
	for (int i = 0; i < 20000; i++) {
		printf("line %d\n", i);
		if (i % 100 == 0)
			nanosleep(&nap, NULL);
	}
	fflush(stdout);
	return 3;
}
