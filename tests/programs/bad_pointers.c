// Calls with addresses where there is no memory, and with buffers that end at the end of memory.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static volatile int faults;
static char *volatile nowhere = (char *)16;

static void on_fault(int sig)
{
	(void)sig;
	faults++;
}

static void all(char *edge)
{
	struct stat st;
	int fds[2], null = open("/dev/null", O_WRONLY);
	errno = 0;
	printf("open %d", open(nowhere, O_RDONLY));
	printf(" %d\n", errno);
	printf("stat %d", stat("/etc/hosts", (struct stat *)nowhere));
	printf(" %d\n", errno);
	if (pipe(fds))
		exit(1);
	printf("write %zd", write(fds[1], edge - 3, 10));
	printf(" %zd", write(fds[1], edge - 300, 299));
	printf(" %zd", write(fds[1], nowhere, 10));
	printf(" %d\n", errno);
	struct iovec iov[2] = {{edge - 5, 5}, {edge, 5}};
	printf("writev %zd", writev(fds[1], iov, 2));
	printf(" %zd %d\n", writev(fds[1], (struct iovec *)(edge - 8), 1), errno);
	strcpy(edge - 11, "/etc/hosts");
	printf("stat %d\n", stat(edge - 11, &st));
	memcpy(edge - 10, "/etc/hosts", 10);
	printf("open %d", open(edge - 10, O_RDONLY)); // no end
	printf(" %d\n", errno);
	close(fds[0]);
	close(fds[1]);
	close(null);
}

int main(int argc, char **argv)
{
	char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	(void)argv;
	mprotect(page + 4096, 4096, PROT_NONE);
	if (argc > 1) { // with a handler of its own, which must not hear of it
		signal(SIGSEGV, on_fault);
		signal(SIGBUS, on_fault);
	}
	all(page + 4096);
	printf("faults %d, pid %d\n", faults, getpid());
	return 0;
}
