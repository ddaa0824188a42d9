// Calls whose pointers lead to nothing, and a mapping that comes to reach beyond its file: the engine tries that memory, and the program
// has no fault.
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *error_of(long ret)
{
	return ret < 0 ? strerrorname_np(errno) : "none";
}

int main(void)
{
	int ends[2], fd = memfd_create("file", 0);
	void *volatile wild = (void *)16;
	if (socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) || write(ends[1], "x", 1) != 1 || ftruncate(fd, 5000))
		return 1;
	printf("%s ", error_of(recvmsg(ends[0], wild, 0)));
	printf("%s ", error_of(syscall(SYS_recvmmsg, ends[0], wild, 3, 0, wild)));
	printf("%s ", error_of(recvfrom(ends[0], wild, 1, 0, wild, wild)));
	printf("%s ", error_of(ioctl(ends[0], 0x80108906, wild))); // SIOCGSTAMP_NEW, of no such socket
	printf("%s ", error_of(syscall(SYS_getrandom, wild, 8, 0)));
	char *view = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	view = mremap(view, 4096, 40960, MREMAP_MAYMOVE);
	view[4096] = 1;
	printf("%d\n", view[4096]);
	return 0;
}
