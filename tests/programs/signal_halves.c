// A signal in a loop of two variables that share a word: one counts, the other one comes and goes from pass to pass. Usage: signal_halves
// low|high, where the one that counts is.
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t came;

static void handle(int sig)
{
	(void)sig;
	came = 1;
}

int main(int argc, char **argv)
{
	_Alignas(8) volatile int pair[2] = {0, 0};
	int which = argc > 1 && !strcmp(argv[1], "high");
	signal(SIGALRM, handle);
	ualarm(200000, 0);
	for (pair[which] = 1; !came && pair[which] < 1 << 30; pair[which]++)
		pair[!which] += (int)((unsigned)pair[!which] + (unsigned)pair[which]) % 9735;
	printf("%d %d\n", pair[0], pair[1]);
	return 0;
}
