// Asks a server: `load PORT CONNECTIONS REQUESTS REQUEST END`; every reply ends with END. Prints requests a second, and of the
// time from each request to the end of its reply the 50th, 99th and 99.9th percentile and the most, in microseconds.
// Runs in: a program of its own, beside a server that runs natively or is being recorded, driven by bench/servers.py.
// May call: libc.
// Owns: nothing.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 256, REPLY = 1 << 16 };

static struct pollfd peers[MOST];
static struct { char reply[REPLY]; size_t have; double sent; } state[MOST];
static double *passed;

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static int reach(int port)
{
	struct sockaddr_in there = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
	if (fd < 0 || connect(fd, (struct sockaddr *)&there, sizeof there))
		fail("connect");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
	return fd;
}

static void ask(int i, const char *request)
{
	size_t size = strlen(request);
	state[i].have = 0;
	state[i].sent = now();
	if (write(peers[i].fd, request, size) != (ssize_t)size)
		fail("write");
}

// True when the reply is complete.
static int take(int i, const char *end)
{
	size_t size = strlen(end);
	ssize_t got = read(peers[i].fd, state[i].reply + state[i].have, REPLY - state[i].have);
	if (got <= 0)
		fail("read");
	state[i].have += got;
	return state[i].have >= size && !memcmp(state[i].reply + state[i].have - size, end, size);
}

int main(int argc, char **argv)
{
	if (argc != 6)
		return 2;
	int count = atoi(argv[2]);
	long requests = atol(argv[3]), asked = 0, done = 0;
	if (count < 1 || count > MOST || !(passed = malloc(requests * sizeof *passed)))
		return 2;
	for (int i = 0; i < count; i++)
		peers[i] = (struct pollfd){.fd = reach(atoi(argv[1])), .events = POLLIN};
	double start = now();
	for (int i = 0; i < count && asked < requests; i++, asked++)
		ask(i, argv[4]);
	while (done < requests) {
		if (poll(peers, count, 60000) <= 0)
			fail("poll");
		for (int i = 0; i < count; i++) {
			if (!peers[i].revents || !take(i, argv[5]))
				continue;
			passed[done++] = now() - state[i].sent;
			if (asked < requests) {
				ask(i, argv[4]);
				asked++;
			}
		}
	}
	double seconds = (now() - start) / 1e6;
	qsort(passed, requests, sizeof *passed, by_size);
	printf("%.1f %.1f %.1f %.1f %.1f\n", requests / seconds, passed[requests / 2], passed[requests * 99 / 100],
	       passed[requests * 999 / 1000], passed[requests - 1]);
	return 0;
}
