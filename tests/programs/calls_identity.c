// Who we are: ids, random bytes, what /proc says, where things lie.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

static void file(const char *path, size_t most)
{
	char text[4096];
	int fd = open(path, O_RDONLY);
	ssize_t n = fd < 0 ? -1 : read(fd, text, most);
	printf("%s %zd %.*s\n", path, n, n > 0 ? (int)n : 0, text);
	if (fd >= 0)
		close(fd);
}

int main(void)
{
	unsigned char bytes[8];
	struct utsname name;
	struct sysinfo info;
	char link[64] = "";
	printf("%d %d %ld\n", getpid(), getppid(), syscall(SYS_gettid));
	if (getrandom(bytes, sizeof bytes, 0) == sizeof bytes)
		for (unsigned i = 0; i < sizeof bytes; i++)
			printf("%02x ", bytes[i]);
	memcpy(bytes, (void *)getauxval(AT_RANDOM), sizeof bytes);
	printf("%02x %02x\n", bytes[0], bytes[7]);
	uname(&name);
	sysinfo(&info);
	printf("%s %lu %d\n", name.nodename, info.freeram, info.procs);
	printf("%p %p %p\n", (void *)&info, malloc(10), (void *)main);
	file("/proc/self/stat", 200);
	file("/proc/uptime", 100);
	file("/proc/sys/kernel/random/uuid", 100);
	file("/dev/urandom", 4);
	file("/proc/self/task", 10);
	printf("%zd %s\n", readlink("/proc/self", link, sizeof link - 1), link);
	return 0;
}
