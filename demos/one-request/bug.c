// A server that reads requests from a socket and dies on one of them: not because of what it asks, but because an
// earlier one, which was refused, has left its length behind.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct request {
	char verb[8];
	int length;
};

static int line[2];
static int length;
static int served;
static char room[64];

static int check(const struct request *request)
{
	length = request->length;
	return request->length <= (int)sizeof room;
}

static void put(const char *text)
{
	memset(room, 0, (size_t)length);
	strncpy(room, text, sizeof room - 1);
}

static void serve(const struct request *request)
{
	if (strcmp(request->verb, "put") == 0 && !check(request)) {
		printf("request %d refused\n", served);
		return;
	}
	put(request->verb);
}

static void *client(void *arg)
{
	for (int i = 0; i < 12; i++) {
		struct request request = {"get", 0};
		if (i % 4 == 1)
			request = (struct request){"put", 10 * i};
		if (i == 9)
			request.length = 1 << 30;
		if (write(line[0], &request, sizeof request) < 0)
			break;
	}
	close(line[0]);
	return arg;
}

int main(void)
{
	pthread_t thread;
	struct request request;
	socketpair(AF_UNIX, SOCK_SEQPACKET, 0, line);
	pthread_create(&thread, NULL, client, NULL);
	while (read(line[1], &request, sizeof request) == sizeof request) {
		serve(&request);
		served++;
	}
	pthread_join(thread, NULL);
	return 0;
}
