// A read that a signal interrupts, restarted or not as SA_RESTART says; natively different: when, and the number of signals.
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int seen;

static void handler(int sig)
{
	(void)sig;
	seen++;
}

static void run(int flags)
{
	struct sigaction act = {.sa_handler = handler, .sa_flags = flags};
	struct itimerval every = {{0, 3000}, {0, 3000}}, none = {{0, 0}, {0, 0}};
	int ends[2], errors = 0, status;
	char text[16];
	seen = 0;
	sigaction(SIGALRM, &act, NULL);
	if (pipe(ends))
		return;
	if (fork() == 0) {
		usleep(30000);
		_exit(write(ends[1], "late", 5) != 5);
	}
	setitimer(ITIMER_REAL, &every, NULL);
	while (read(ends[0], text, sizeof text) < 0)
		errors += errno == EINTR;
	setitimer(ITIMER_REAL, &none, NULL);
	while (wait(&status) < 0)
		;
	printf("%s: %s, %d signals, %d errors\n", flags ? "restart" : "plain", text, seen, errors);
}

int main(void)
{
	run(SA_RESTART);
	run(0);
	return 0;
}
