// The mask that was before, stored by calls that the engine answers by itself.
#include <signal.h>
#include <stdio.h>

static sigset_t before;

int main(void)
{
	sigset_t one;
	for (int sig = SIGUSR1; sig <= SIGALRM; sig += SIGALRM - SIGUSR1) {
		sigemptyset(&one);
		sigaddset(&one, sig);
		sigprocmask(SIG_BLOCK, &one, &before);
	}
	sigprocmask(SIG_BLOCK, NULL, &before);
	printf("%d%d\n", sigismember(&before, SIGUSR1), sigismember(&before, SIGALRM));
	return 0;
}
