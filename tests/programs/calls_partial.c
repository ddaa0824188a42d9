// A call that waits for more has stored a part already: natively another thread sees it, hours before the call ends.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static char all[8], first[8], second[8];
static int stream[2], datagrams[2];
static int early;

static void look(volatile char *at)
{
	for (int i = 0; i < 5; i++) {
		struct timespec pause = {0, 2000000};
		nanosleep(&pause, NULL);
		early += *at != 0;
	}
}

static void *feed(void *unused)
{
	(void)unused;
	if (write(stream[1], "abcd", 4) != 4)
		return NULL;
	look(all);
	if (write(stream[1], "efgh", 4) != 4 || write(datagrams[1], "one", 3) != 3)
		return NULL;
	look(first);
	return write(datagrams[1], "two", 3) == 3 ? NULL : &early;
}

int main(void)
{
	pthread_t feeder;
	struct iovec iov[2] = {{first, 8}, {second, 8}};
	struct mmsghdr many[2] = {{{.msg_iov = &iov[0], .msg_iovlen = 1}, 0}, {{.msg_iov = &iov[1], .msg_iovlen = 1}, 0}};
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, stream) || socketpair(AF_UNIX, SOCK_DGRAM, 0, datagrams))
		return 1;
	pthread_create(&feeder, NULL, feed, NULL);
	ssize_t n = recv(stream[0], all, 8, MSG_WAITALL);
	int messages = recvmmsg(datagrams[0], many, 2, 0, NULL);
	pthread_join(feeder, NULL);
	printf("early %d: %zd %.8s %d %s %s\n", early, n, all, messages, first, second);
	return 0;
}
