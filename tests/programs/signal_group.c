// Signals its whole group of processes, in which its recorder is, too. Usage: signal_group NUMBER [handled]
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static volatile int handled;

static void handle(int sig)
{
	handled = sig;
}

int main(int argc, char **argv)
{
	int number = argc > 1 ? atoi(argv[1]) : 0;
	if (argc > 2)
		signal(number, handle);
	printf("%d\n", number);
	fflush(stdout);
	kill(0, number);
	printf("handled %d\n", handled);
	return 0;
}
