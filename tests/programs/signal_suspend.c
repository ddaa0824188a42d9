// sigsuspend in a loop, two signals from a child; natively different: how they interleave.
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char trace[256];
static volatile int total;

static void handler(int sig)
{
	trace[total++ & 255] = sig == SIGUSR1 ? '1' : '2';
}

int main(void)
{
	sigset_t block, before;
	int suspends = 0, status;
	struct sigaction act = {.sa_handler = handler};
	sigaction(SIGUSR1, &act, NULL);
	sigaction(SIGUSR2, &act, NULL);
	sigemptyset(&block);
	sigaddset(&block, SIGUSR1);
	sigaddset(&block, SIGUSR2);
	sigprocmask(SIG_BLOCK, &block, &before);
	pid_t parent = getpid(), child = fork();
	if (child == 0) {
		for (int i = 0; i < 100; i++) {
			kill(parent, i % 3 ? SIGUSR1 : SIGUSR2);
			usleep(200);
		}
		while (kill(parent, SIGUSR1) == 0) // signals that came while another was pending are lost: until it has enough
			usleep(1000);
		_exit(0);
	}
	while (waitpid(child, &status, WNOHANG) == 0) {
		struct sigaction none = {.sa_handler = SIG_DFL};
		sigaction(SIGCHLD, &none, NULL);
		if (total > 90)
			break;
		sigsuspend(&before);
		suspends++;
		sigset_t now;
		sigprocmask(SIG_SETMASK, NULL, &now);
		if (!sigismember(&now, SIGUSR1))
			puts("the mask is lost");
	}
	printf("%d suspends, %d signals: %s\n", suspends, total, trace);
	kill(child, SIGKILL);
	return 0;
}
