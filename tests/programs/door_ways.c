// Calls that answer the same in every run, often enough that their sites are patched when they may be.
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static char room[8192];

int main(void)
{
	int zero = open("/dev/zero", O_RDONLY), null = open("/dev/null", O_WRONLY);
	unsigned long sum = 0;
	for (int i = 0; i < 40; i++) {
		sigset_t set, old;
		struct iovec iov[2] = {{room, 100}, {room + 4000, 3000}};
		sum += read(zero, room, sizeof room);
		sum += pread(zero, room + i, 7, i);
		sum += readv(zero, iov, 2);
		sum += write(null, room, 4096);
		sum += lseek(zero, 0, SEEK_CUR);
		sum += fcntl(zero, F_GETFL) + fcntl(-1, F_GETFD);
		sum += access("/nonexistent", F_OK);
		sum += (unsigned long)getcwd(room, sizeof room);
		sigfillset(&set);
		sum += sigprocmask(SIG_BLOCK, &set, &old) + sigprocmask(SIG_SETMASK, &old, NULL);
		char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		page[i] = i;
		sum += (unsigned long)page + mprotect(page, 4096, PROT_READ) + madvise(page, 4096, MADV_DONTNEED) + page[i];
		sum += munmap(page, 4096);
		sum += syscall(SYS_getuid) + syscall(SYS_getgid);
		sum += dup2(null, 9) + close(9);
	}
	char text[20]; // not by stdio: what fstat says about the output is left on its stack
	int length = snprintf(text, sizeof text, "%lx\n", sum);
	return write(1, text, length) != length;
}
