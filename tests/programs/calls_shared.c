// A file mapped to be shared, while others may write to it. Arguments: FILE, a word on how to map it, two pipes.
// It says on the first pipe that the mapping is there, and looks at it again when something came through the second.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

static void must(int condition, const char *what)
{
	if (!condition) {
		perror(what);
		exit(1);
	}
}

// A descriptor that comes in a message through standard input.
static int receive(void)
{
	char byte, room[CMSG_SPACE(sizeof(int))];
	struct iovec iov = {&byte, 1};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
	int fd;
	must(recvmsg(0, &msg, 0) == 1, "recvmsg");
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof fd);
	return fd;
}

int main(int argc, char **argv)
{
	must(argc == 5, "arguments");
	const char *how = argv[2];
	char byte;
	int writes = !strcmp(how, "write") || !strcmp(how, "self");
	int fd = !strcmp(how, "passed") ? receive() : open(argv[1], writes ? O_RDWR : O_RDONLY);
	must(fd >= 0, argv[1]);
	char *view = mmap(NULL, 8192, strcmp(how, "write") ? PROT_READ : PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	must(view != MAP_FAILED, "mmap");
	printf("%.5s %p\n", view, (void *)view);
	if (!strcmp(how, "write"))
		memcpy(view, "mine!", 5);
	if (!strcmp(how, "self"))
		must(pwrite(fd, "mine!", 5, 0) == 5, "pwrite");
	close(fd);
	int told = open(argv[3], O_WRONLY);
	must(write(told, "x\n", 2) == 2, "tell");
	int go = open(argv[4], O_RDONLY);
	must(read(go, &byte, 1) == 1, "go");
	printf("%.5s\n", view);
	if (!strcmp(how, "part"))
		must(munmap(view + 4096, 4096) == 0, "munmap");
	if (strcmp(how, "exit"))
		must(munmap(view, 8192) == 0, "munmap");
	return 0;
}
