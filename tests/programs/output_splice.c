// What goes to the output without passing the program's memory: splice, tee, sendfile and copy_file_range, from pipes and files.
// Runs in: a program of its own, natively, recorded and replayed; its output is a pipe.
// May call: libc.
// Owns: nothing.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static int way[2];

static void tell(const char *what, long result)
{
	fprintf(stderr, "%s: %ld %s\n", what, result, result < 0 ? strerror(errno) : "");
}

static void *fills(void *unused)
{
	char text[4000];
	for (int i = 0; i < 60; i++) {
		memset(text, 'a' + i % 26, sizeof text - 1);
		text[sizeof text - 1] = '\n';
		if (write(way[1], text, sizeof text) != sizeof text)
			abort();
	}
	close(way[1]);
	return unused;
}

int main(void)
{
	char text[200];
	loff_t at = 3;
	off_t from = 2;
	int pair[2], file = open("/proc/self/exe", O_RDONLY);
	pthread_t thread;
	if (pipe(way) || socketpair(AF_UNIX, SOCK_STREAM, 0, pair) || file < 0)
		return 2;
	int n = snprintf(text, sizeof text, "%ld: what differs from run to run\n", (long)time(NULL) + getpid());
	if (write(way[1], text, n) != n)
		return 3;
	tell("tee", tee(way[0], 1, 10, 0) - 10);
	tell("splice", splice(way[0], NULL, 1, NULL, 10, 0) - 10);
	tell("the rest", splice(way[0], NULL, 1, NULL, 4096, SPLICE_F_MOVE) - (n - 10));
	fcntl(way[0], F_SETFL, O_NONBLOCK);
	tell("nothing", splice(way[0], NULL, 1, NULL, 10, SPLICE_F_NONBLOCK));
	tell("nothing", tee(way[0], 1, 10, SPLICE_F_NONBLOCK));
	fcntl(way[0], F_SETFL, 0);
	tell("file", splice(file, &at, 1, NULL, 3, 0));
	tell("file", splice(file, NULL, 1, NULL, 4, 0));
	tell("sent", sendfile(1, file, &from, 2));
	tell("copied", copy_file_range(file, NULL, 1, NULL, 2, 0));
	tell("bad", splice(way[0], &at, 1, NULL, 3, 0));
	fprintf(stderr, "at %ld, %ld, %ld\n", (long)at, (long)from, (long)lseek(file, 0, SEEK_CUR));
	pthread_create(&thread, NULL, fills, NULL);
	long all = 0;
	while ((n = splice(way[0], NULL, 1, NULL, 1 << 20, 0)) > 0)
		all += n;
	tell("all", all);
	tell("end", n);
	pthread_join(thread, NULL);
	return 0;
}
