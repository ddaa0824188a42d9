// SIGCHLD with siginfo: children end when they like; natively different: pids and the order of ends.
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile int got, pids[16], codes[16], calls;

static void handler(int sig, siginfo_t *info, void *context)
{
	int status, pid, saved = errno;
	(void)sig;
	(void)context;
	calls++;
	codes[calls & 15] = info->si_pid;
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		pids[got++ & 15] = pid * 10 + WEXITSTATUS(status);
	errno = saved;
}

int main(void)
{
	struct sigaction act = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_NOCLDSTOP};
	sigaction(SIGCHLD, &act, NULL);
	for (int i = 0; i < 5; i++)
		if (fork() == 0) {
			usleep(1000 * ((getpid() * 7919) % 5));
			_exit(i);
		}
	while (got < 5) {
		struct timespec ms = {0, 3000000};
		nanosleep(&ms, NULL);
	}
	for (int i = 0; i < 5; i++)
		printf("%d ", pids[i]);
	printf("calls %d", calls);
	for (int i = 1; i <= calls; i++)
		printf(" %d", codes[i & 15]);
	puts("");
	return 0;
}
