// Calls whose pointers for results may be NULL: the engine tries each of them, and the program has no fault.
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int ends[2];

static void *receives(void *unused)
{
	char c;
	recv(ends[0], &c, 1, 0);
	return unused;
}

int main(void)
{
	struct timespec nothing = {0, 1};
	pthread_t thread;
	char c;
	socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
	pthread_create(&thread, NULL, receives, NULL);
	send(ends[1], "x", 1, 0);
	pthread_join(thread, NULL);
	send(ends[1], "y", 1, 0);
	recvfrom(ends[0], &c, 1, 0, NULL, NULL);
	nanosleep(&nothing, NULL);
	waitpid(-1, NULL, WNOHANG);
	printf("%c\n", c);
	return 0;
}
