// Descriptors of every origin side by side: native files, recorded sockets, copies, received ones, low numbers, closed
// ranges. Reads files only; what it prints carries the time.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static void line(const char *what, int fd)
{
	char text[24] = "";
	ssize_t n = read(fd, text, 12);
	for (char *p = text; *p; p++)
		*p = *p == '\n' ? '|' : *p;
	printf("%s fd %d: %zd %s at %ld\n", what, fd, n, text, (long)lseek(fd, 0, SEEK_CUR));
}

static void give(int socket, int fd)
{
	char control[CMSG_SPACE(sizeof fd)] = {0}, byte = 'x';
	struct iovec iov = {&byte, 1};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
	*c = (struct cmsghdr){CMSG_LEN(sizeof fd), SOL_SOCKET, SCM_RIGHTS};
	memcpy(CMSG_DATA(c), &fd, sizeof fd);
	printf("sent %zd\n", sendmsg(socket, &msg, 0));
}

static int receive(int socket)
{
	char control[CMSG_SPACE(2 * sizeof(int))] = {0}, byte;
	struct iovec iov = {&byte, 1};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
	int fd = -1;
	if (recvmsg(socket, &msg, 0) == 1 && CMSG_FIRSTHDR(&msg))
		memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof fd);
	return fd;
}

// What it prints shows every result that matters.
#pragma GCC diagnostic ignored "-Wunused-result"
int main(void)
{
	const char *path = "/etc/passwd";
	int pair[2], tube[2], file, other;
	char buffer[200];
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);

	// Numbers of native files lie between recorded ones.
	socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
	file = open(path, O_RDONLY);
	pipe(tube);
	other = open(path, O_RDONLY);
	line("file", file);
	line("other", other);
	close(pair[0]);
	int low = open(path, O_RDONLY);
	line("low", low);
	socketpair(AF_UNIX, SOCK_STREAM, 0, pair);

	// Copies share their position.
	int copy = dup(file), high = fcntl(file, F_DUPFD, 50), exact = dup2(file, 77), three = dup3(other, 80, O_CLOEXEC);
	line("dup", copy);
	line("F_DUPFD", high);
	line("dup2", exact);
	line("original", file);
	line("dup3", three);
	dup2(tube[1], copy); // a recorded one onto a native number
	printf("write to it %zd\n", write(copy, &now.tv_nsec, 8));
	dup2(file, tube[1]); // and the other way round
	line("onto a pipe's", tube[1]);
	printf("flags %x %x %d\n", fcntl(file, F_GETFL), fcntl(tube[0], F_GETFL), fcntl(three, F_GETFD));

	// Calls with one of each: the native position moves as it did.
	printf("sendfile %zd\n", sendfile(pair[1], file, NULL, 20));
	line("behind sendfile", file);
	off_t at = 5;
	printf("sendfile %zd %ld\n", sendfile(pair[1], file, &at, 20), (long)at);
	line("not moved", file);
	printf("splice %zd\n", splice(file, NULL, copy, NULL, 15, 0));
	line("behind splice", file);
	printf("read %zd\n", read(pair[0], buffer, sizeof buffer));
	struct pollfd polled[3] = {{file, POLLIN, 0}, {tube[0], POLLIN, 0}, {pair[0], POLLIN, 0}};
	int polls = poll(polled, 3, 0);
	printf("poll %d: %x %x %x\n", polls, polled[0].revents, polled[1].revents, polled[2].revents);
	fd_set set;
	FD_ZERO(&set);
	FD_SET(file, &set);
	FD_SET(tube[0], &set);
	int selected = select(60, &set, NULL, NULL, NULL);
	printf("select %d: %d %d\n", selected, FD_ISSET(file, &set), FD_ISSET(tube[0], &set));
	int epoll = epoll_create1(0);
	struct epoll_event event = {.events = EPOLLIN};
	int added = epoll_ctl(epoll, EPOLL_CTL_ADD, file, &event);
	printf("epoll of a file %d %s\n", added, strerror(errno));

	// A descriptor in a message.
	give(pair[1], other);
	int received = receive(pair[0]);
	line("received", received);
	line("as sent", other);

	// Nothing of anybody else's is there, and numbers are low.
	struct rlimit limit = {20, 20}, before;
	getrlimit(RLIMIT_NOFILE, &before);
	limit.rlim_max = before.rlim_max;
	printf("setrlimit %d\n", setrlimit(RLIMIT_NOFILE, &limit));
	printf("close_range %ld\n", syscall(SYS_close_range, 40, ~0U, 0));
	line("closed", exact);
	line("not closed", file);
	file = 0;
	while ((other = open(path, O_RDONLY)) >= 0)
		file = other;
	printf("last %d %s\n", file, strerror(errno));
	line("last", file);
	printf("close_range %ld\n", syscall(SYS_close_range, 3, ~0U, 0));
	printf("first free %d\n", open(path, O_RDONLY));

	// The output's numbers are the program's, too.
	int out = dup(1);
	close(1);
	int one = open(path, O_RDONLY);
	line("in the output's place", one);
	fflush(stdout);
	dup2(out, 1);
	printf("%ld\n", now.tv_nsec);
	fflush(stdout);
	close(2);
	FILE *again = fopen("/dev/stdout", "a");
	if (again) {
		fprintf(again, "by name %ld\n", now.tv_nsec);
		fclose(again);
	}
	int source = open(path, O_RDONLY);
	printf("to the output %s\n", sendfile(1, source, NULL, 30) == 30 ? "30" : "nothing");
	fflush(stdout);
	return 0;
}
