// Sockets with a real peer: a child over TCP, a thread over UDP; names resolved; a terminal of one's own.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <pty.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#pragma GCC diagnostic ignored "-Wunused-result" // what matters is printed

static void talk(int socket)
{
	for (int i = 0; i < 10; i++) {
		struct timespec now;
		char text[200];
		clock_gettime(CLOCK_REALTIME, &now);
		int n = snprintf(text, sizeof text, "%*ld %d\n", 20 + i * 10, now.tv_nsec, getpid());
		struct iovec iov[2] = {{text, n / 2}, {text + n / 2, n - n / 2}};
		writev(socket, iov, 2);
		usleep(500);
	}
}

static void *datagrams(void *port)
{
	int s = socket(AF_INET, SOCK_DGRAM, 0);
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = *(in_port_t *)port, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	for (int i = 0; i < 5; i++) {
		struct timespec now;
		clock_gettime(CLOCK_REALTIME, &now);
		sendto(s, &now.tv_nsec, 4 + i, 0, (struct sockaddr *)&to, sizeof to);
	}
	close(s);
	return NULL;
}

int main(void)
{
	struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}}, peer;
	socklen_t len = sizeof name;
	int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	bind(listener, (struct sockaddr *)&name, sizeof name);
	listen(listener, 5);
	getsockname(listener, (struct sockaddr *)&name, &len);
	printf("port %d\n", ntohs(name.sin_port));
	pid_t pid = fork();
	if (pid == 0) {
		int s = socket(AF_INET, SOCK_STREAM, 0);
		connect(s, (struct sockaddr *)&name, sizeof name);
		talk(s);
		_exit(0);
	}
	len = sizeof peer;
	int s = accept4(listener, (struct sockaddr *)&peer, &len, SOCK_CLOEXEC);
	printf("from %d, %u bytes\n", ntohs(peer.sin_port), len);
	struct tcp_info info;
	len = sizeof info;
	getsockopt(s, IPPROTO_TCP, TCP_INFO, &info, &len);
	printf("rtt %u, %u bytes\n", info.tcpi_rtt, len);
	char text[256];
	for (ssize_t n; (n = recv(s, text, sizeof text - 1, 0)) > 0;)
		printf("%zd %.*s", n, (int)n, text);
	shutdown(s, SHUT_RDWR);
	waitpid(pid, NULL, 0);

	int u = socket(AF_INET, SOCK_DGRAM, 0);
	struct timeval wait = {0, 200000};
	name.sin_port = 0;
	bind(u, (struct sockaddr *)&name, sizeof name);
	len = sizeof name;
	getsockname(u, (struct sockaddr *)&name, &len);
	setsockopt(u, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
	pthread_t thread;
	pthread_create(&thread, NULL, datagrams, &name.sin_port);
	for (int i = 0; i < 6; i++) {
		len = sizeof peer;
		ssize_t n = recvfrom(u, text, sizeof text, 0, (struct sockaddr *)&peer, &len);
		printf("datagram %zd %d from %d\n", n, n > 0 ? *(int *)text : 0, n > 0 ? ntohs(peer.sin_port) : 0);
	}
	pthread_join(thread, NULL);

	struct addrinfo *found = NULL, want = {.ai_socktype = SOCK_STREAM};
	printf("getaddrinfo %d", getaddrinfo("localhost", "http", &want, &found));
	for (struct addrinfo *a = found; a; a = a->ai_next)
		printf(" %d:%d", a->ai_family, ntohs(((struct sockaddr_in *)a->ai_addr)->sin_port));
	puts("");

	int master, slave;
	char tty[64];
	struct winsize size = {24, 80, 0, 0};
	struct termios settings;
	if (openpty(&master, &slave, tty, NULL, &size) == 0) {
		struct timespec now;
		clock_gettime(CLOCK_REALTIME, &now);
		dprintf(slave, "%ld\n", now.tv_nsec);
		ssize_t n = read(master, text, sizeof text);
		printf("terminal %s %d %zd %.*s", tty, isatty(slave), n, (int)n, text);
		ioctl(slave, TIOCGWINSZ, &size);
		tcgetattr(slave, &settings);
		cfmakeraw(&settings);
		printf("%d %d %d\n", size.ws_row, size.ws_col, tcsetattr(slave, TCSANOW, &settings));
	}
	return 0;
}
