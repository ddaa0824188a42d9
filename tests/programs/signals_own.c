// Signals that the program sends to itself, the engine's own among them, to a thread that waits, and one that is blocked.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
#include <unistd.h>

static volatile sig_atomic_t number;

static void handler(int signal)
{
	number = signal;
}

static void behind(void)
{
}

int main(void)
{
	struct itimerval soon = {.it_value = {.tv_usec = 20000}};
	sigset_t set;
	signal(SIGUSR1, handler);
	signal(SIGSYS, handler);
	signal(SIGALRM, handler);
	kill(getpid(), SIGUSR1);
	behind();
	kill(getpid(), SIGSYS);
	behind();
	raise(SIGSYS);
	behind();
	setitimer(ITIMER_REAL, &soon, NULL);
	pause();
	behind();
	sigemptyset(&set);
	sigaddset(&set, SIGSYS);
	sigprocmask(SIG_BLOCK, &set, NULL);
	kill(getpid(), SIGSYS);
	number = 0;
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	behind();
	printf("%d\n", (int)number);
	return 0;
}
