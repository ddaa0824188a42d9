// Says that it is there and sleeps: somebody to be interrupted.
#include <stdio.h>
#include <unistd.h>

int main(void)
{
	printf("asleep in process %d\n", getpid());
	fflush(stdout);
	sleep(600);
	return 0;
}
