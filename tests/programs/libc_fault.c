// A directory that is none, in a program with threads: the lock in it is what faults, where the C library's instruction stands.
#define _GNU_SOURCE
#include <dirent.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

static sigjmp_buf back;
static void *address, *place;

static void handler(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	address = info->si_addr;
	place = (void *)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
	siglongjmp(back, 1);
}

static void *nothing(void *arg)
{
	return arg;
}

int main(int argc, char **argv)
{
	struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
	pthread_t thread;
	DIR *volatile none = NULL;
	pthread_create(&thread, NULL, nothing, NULL);
	pthread_join(thread, NULL);
	if (argc > 1) {
		readdir(none);
		return 1;
	}
	sigaction(SIGSEGV, &action, NULL);
	for (int i = 0; i < 2; i++) {
		if (sigsetjmp(back, 1) == 0)
			readdir(none);
		long distance = (char *)place - (char *)readdir;
		printf("%p, %s readdir\n", address, distance >= 0 && distance < 512 ? "in" : "not in");
	}
	// A child has no engine, and the same library.
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		char text[64];
		snprintf(text, sizeof text, "child: %ld\n", random() % 2 + (long)strlen(argv[0]) * 0);
		_exit(fputs(text, stderr) < 0);
	}
	int status = -1;
	waitpid(child, &status, 0);
	printf("%d, %d\n", status, system("exit 3") >> 8);
	return 0;
}
