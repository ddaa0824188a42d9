// Calls over several mappings that fail at one of them: what they did in front of that is done.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 6 };

static sigjmp_buf out;

static void caught(int sig)
{
	siglongjmp(out, sig);
}

// For each page its first byte, and whether it can be written to.
static void show(const char *what, long result, char *at)
{
	printf("%-10s %ld %-8s", what, result, result < 0 ? strerrorname_np(errno) : "");
	for (int i = 0; i < PAGES; i++) {
		volatile char *p = at + i * PAGE;
		if (sigsetjmp(out, 1)) {
			printf(" -");
			continue;
		}
		printf(" %d", *p);
		if (sigsetjmp(out, 1)) {
			printf("r");
			continue;
		}
		*p = *p;
	}
	printf("\n");
}

static char *fresh(void)
{
	char *p = mmap((void *)0x100000000000, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	for (int i = 0; i < PAGES; i++)
		p[i * PAGE] = i + 1;
	return p;
}

int main(void)
{
	char *p, path[] = "/tmp/calls-fail-half-XXXXXX";
	struct sigaction action = {.sa_handler = caught};
	sigaction(SIGSEGV, &action, NULL);

	p = fresh();
	munmap(p + 2 * PAGE, PAGE);
	show("hole", madvise(p, PAGES * PAGE, MADV_DONTNEED), p);
	p = fresh();
	mlock(p + 3 * PAGE, PAGE);
	show("locked", madvise(p, PAGES * PAGE, MADV_DONTNEED), p);
	show("unaligned", madvise(p + 1, PAGES * PAGE, MADV_DONTNEED), p);
	show("unknown", madvise(p, PAGES * PAGE, 12345), p);
	p = fresh();
	munmap(p + 4 * PAGE, PAGE);
	show("protected", mprotect(p, PAGES * PAGE, PROT_READ), p);
	p = fresh();
	munmap(p, PAGE);
	show("nothing", mprotect(p, PAGES * PAGE, PROT_READ), p);

	int fd = mkstemp(path), again = open(path, O_RDONLY);
	p = fresh();
	if (fd < 0 || again < 0 || ftruncate(fd, PAGES * PAGE))
		return 1;
	if (mmap(p + 3 * PAGE, 2 * PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, again, 0) == MAP_FAILED)
		return 1;
	show("read only", mprotect(p, PAGES * PAGE, PROT_READ | PROT_WRITE), p);
	mprotect(p, 3 * PAGE, PROT_READ);
	show("again", mprotect(p, PAGES * PAGE, PROT_READ | PROT_WRITE), p);
	unlink(path);

	p = fresh();
	show("moved", (long)mremap(p, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, p + 1), p);
	show("onto", (long)mremap((void *)0x102000000000, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, p + PAGE), p);
	show("mapped", (long)mmap(p + PAGE, PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED, 99, 0) == -1 ? -1 : 0, p);

	p = fresh();
	struct iovec iov[2] = {{p, PAGE}, {p + 2 * PAGE, 2 * PAGE}};
	int self = syscall(SYS_pidfd_open, getpid(), 0);
	show("advised", syscall(SYS_process_madvise, self, iov, 2, MADV_COLD, 0) > 0, p);
	printf("%d\n", syscall(SYS_process_madvise, self, iov, 2, MADV_DONTNEED, 0) < 0 || (!p[0] && p[PAGE] && !p[3 * PAGE]));
	show("then", 0, p);
	return 0;
}
