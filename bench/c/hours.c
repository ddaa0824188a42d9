// What a server logs in hours, in as short a time as it can: `hours REQUESTS THREADS`. Each request is written to a socket, waited for,
// looked up under a lock and answered; a share of them by a thread that is made for it, THREADS in all.
// Runs in: a program of its own, which is recorded by bench/hours.py.
// May call: libc, pthread.
// Owns: nothing.
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { REQUEST = 128, REPLY = 256, ROWS = 1024 };

static int ends[2];
static long requests, threads, table[ROWS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void *answer(void *request)
{
	char reply[REPLY] = {0};
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	pthread_mutex_lock(&lock);
	long row = table[*(unsigned char *)request % ROWS] += now.tv_sec & 1;
	pthread_mutex_unlock(&lock);
	snprintf(reply, sizeof reply, "%ld at %ld", row, (long)now.tv_nsec);
	if (write(ends[0], reply, REPLY) != REPLY)
		fail("write");
	return NULL;
}

static void *client(void *unused)
{
	char request[REQUEST], reply[REPLY];
	for (long i = 0; i < requests; i++) {
		memset(request, (int)i, sizeof request);
		if (write(ends[1], request, REQUEST) != REQUEST || read(ends[1], reply, REPLY) != REPLY)
			fail("client");
	}
	return unused;
}

int main(int argc, char **argv)
{
	if (argc != 3 || (requests = atol(argv[1])) < 1 || (threads = atol(argv[2])) < 0)
		return fprintf(stderr, "usage: hours REQUESTS THREADS\n"), 2;
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
		fail("socketpair");
	pthread_t asks, one;
	if (pthread_create(&asks, NULL, client, NULL))
		fail("pthread_create");
	long each = threads ? (requests + threads - 1) / threads : requests + 1;
	for (long i = 1; i <= requests; i++) {
		char request[REQUEST];
		struct pollfd ready = {.fd = ends[0], .events = POLLIN};
		if (poll(&ready, 1, -1) != 1 || read(ends[0], request, REQUEST) != REQUEST)
			fail("server");
		if (i % each)
			answer(request);
		else if (pthread_create(&one, NULL, answer, request) || pthread_join(one, NULL))
			fail("pthread_create");
	}
	pthread_join(asks, NULL);
	printf("%ld\n", requests);
	return 0;
}
