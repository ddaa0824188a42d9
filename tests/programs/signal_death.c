// Ways to be killed by a signal, chosen by the argument; natively different: the time that is printed before.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void handler(int sig)
{
	printf("handled %d\n", sig);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	printf("%s %ld\n", how, now.tv_nsec);
	fflush(stdout);
	if (!strcmp(how, "abort")) {
		signal(SIGABRT, handler);
		abort();
	} else if (!strcmp(how, "term")) {
		kill(getpid(), SIGTERM);
	} else if (!strcmp(how, "segv")) {
		*(volatile int *)(now.tv_nsec & 0xfff) = 1;
	} else if (!strcmp(how, "reset")) {
		struct sigaction act = {.sa_handler = handler, .sa_flags = SA_RESETHAND};
		sigaction(SIGUSR1, &act, NULL);
		raise(SIGUSR1);
		raise(SIGUSR1);
	} else if (!strcmp(how, "child")) {
		pid_t parent = getpid();
		if (fork() == 0) {
			usleep(20000);
			kill(parent, SIGKILL);
			_exit(0);
		}
		for (;;)
			pause();
	} else if (!strcmp(how, "trap")) {
		signal(SIGTRAP, handler);
		__asm__ volatile("int3");
		signal(SIGTRAP, SIG_DFL);
		__asm__ volatile("int3");
	}
	return 0;
}
