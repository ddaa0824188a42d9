// Descriptors and other numbers of 32 bits, with something above them in their registers: the kernel does not look at that.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define WIDE(n) ((n) + 0x5a5a00000000L)

static char text[100];

static void say(long fd, const char *words)
{
	syscall(SYS_write, fd, words, strlen(words));
}

int main(void)
{
	say(WIDE(1), "by a wide number\n");
	long copy = syscall(SYS_dup2, WIDE(1), WIDE(77)), other = syscall(SYS_fcntl, WIDE(1), WIDE(F_DUPFD), 80);
	say(copy, "by a copy\n");
	say(WIDE(other), "by another one\n");
	syscall(SYS_close, WIDE(copy));
	say(77, "by none\n");

	int fd = open("/etc/passwd", O_RDONLY);
	long first = syscall(SYS_read, WIDE(fd), text, 4);
	long second = syscall(SYS_read, fd, text + 4, 4), place = syscall(SYS_lseek, WIDE(fd), 0, WIDE(SEEK_CUR));
	printf("%ld %ld %ld %s\n", first, second, place, text);
	return 0;
}
