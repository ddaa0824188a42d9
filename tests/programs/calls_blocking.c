// Every kind of call that waits and fills memory, while another thread feeds it and the time goes into what is sent.
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 20, KINDS = 10 };

static int data[2], turn[2]; // data: datagrams; turn: the feeder waits for the taker here

static void *feed(void *unused)
{
	(void)unused;
	for (int round = 0; round < ROUNDS * KINDS; round++) {
		struct timespec now, pause = {0, 20000};
		char text[32], go;
		nanosleep(&pause, NULL);
		clock_gettime(CLOCK_MONOTONIC, &now);
		int n = snprintf(text, sizeof text, "%ld", now.tv_nsec);
		if (write(data[1], text, n) != n || read(turn[0], &go, 1) != 1)
			return NULL;
	}
	return NULL;
}

static ssize_t take(int kind, char *to)
{
	struct iovec iov[3] = {{to, 2}, {to + 2, 0}, {to + 2, 40}};
	char name[110], control[64];
	struct msghdr msg = {name, 4, iov, 3, control, sizeof control, 0};
	struct mmsghdr many[2] = {{msg, 0}, {msg, 0}};
	struct sockaddr_storage peer;
	socklen_t len = 3; // less than the kernel has to say
	struct pollfd poller[2] = {{data[0], POLLIN, 0}, {turn[0], POLLOUT, 0}};
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = 0x1234567890};
	struct timespec most = {5, 0};
	struct timeval wait = {5, 0};
	fd_set set;
	switch (kind) {
	case 0:
		return read(data[0], to, 40);
	case 1:
		return readv(data[0], iov, 3);
	case 2:
		return recv(data[0], to, 40, 0);
	case 3:
		return recvfrom(data[0], to, 40, 0, (struct sockaddr *)&peer, &len) + 100 * len;
	case 4:
		return recvmsg(data[0], &msg, 0) + 100 * msg.msg_namelen + 1000 * msg.msg_controllen + (msg.msg_iov == iov);
	case 5:
		return recvmmsg(data[0], many, 1, 0, &most) == 1 ? (ssize_t)many[0].msg_len : -1;
	case 6:
		return 100 * poll(poller, 2, -1) + 1000 * poller[0].revents + read(data[0], to, 40);
	case 7:
		return 100 * ppoll(poller, 1, &most, NULL) + most.tv_nsec + read(data[0], to, 40);
	case 8: {
		int epoll = epoll_create1(0);
		epoll_ctl(epoll, EPOLL_CTL_ADD, data[0], &event);
		event.data.u64 = 0;
		int n = epoll_wait(epoll, &event, 1, -1);
		close(epoll);
		return n + event.data.u64 % 1000 + read(data[0], to, 40);
	}
	default:
		FD_ZERO(&set);
		FD_SET(data[0], &set);
		return select(data[0] + 1, &set, NULL, NULL, &wait) + wait.tv_usec + read(data[0], to, 40);
	}
}

int main(void)
{
	pthread_t feeder;
	if (socketpair(AF_UNIX, SOCK_DGRAM, 0, data) || pipe(turn))
		return 1;
	pthread_create(&feeder, NULL, feed, NULL);
	for (int round = 0; round < ROUNDS * KINDS; round++) {
		char to[64] = "";
		ssize_t got = take(round % KINDS, to);
		printf("%d %zd %s\n", round % KINDS, got, to);
		if (write(turn[1], "x", 1) != 1)
			return 1;
	}
	pthread_join(feeder, NULL);
	return 0;
}
