// Prints what a program can see of how it was started: addresses, random bytes, descriptors, signals, limits.
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int local;
	struct rlimit files;
	getrlimit(RLIMIT_NOFILE, &files);
	printf("argv %d %s\n", argc, argv[0]);
	printf("addresses %p %p %p %p\n", (void *)&local, (void *)main, (void *)printf, malloc(10));
	printf("random ");
	for (int i = 0; i < 16; i++)
		printf("%02x", ((unsigned char *)getauxval(AT_RANDOM))[i]);
	printf("\nfiles %lu\n", (unsigned long)files.rlim_cur);
	printf("environment %s\n", getenv("GREETING") ? getenv("GREETING") : "none");
	printf("fds");
	for (int fd = 3; fd < 1100; fd++)
		if (fcntl(fd, F_GETFD) >= 0)
			printf(" %d", fd);
	struct sigaction interrupt, pipe;
	sigset_t blocked;
	sigaction(SIGINT, NULL, &interrupt);
	sigaction(SIGPIPE, NULL, &pipe);
	sigprocmask(SIG_SETMASK, NULL, &blocked);
	printf("\nignored %d %d blocked %d\n", interrupt.sa_handler == SIG_IGN, pipe.sa_handler == SIG_IGN,
	       sigismember(&blocked, SIGUSR1));
	int death;
	prctl(PR_GET_PDEATHSIG, &death);
	printf("death signal %d\n", death);
	char here[4096];
	printf("directory %s\n", getcwd(here, sizeof here));
	return 0;
}
