// Mapped files around their end: the rest of the last page, pages behind it, and what becomes of both when the file or the view
// grows and shrinks.
#define _GNU_SOURCE
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 6 };

static sigjmp_buf out;
static char *faulted;

static void caught(int sig, siginfo_t *info, void *context)
{
	(void)context;
	faulted = info->si_addr;
	siglongjmp(out, sig);
}

// For each page: its first byte, or the name of the signal.
static void show(const char *what, char *view, int pages, int writes)
{
	printf("%-12s", what);
	for (int i = 0; i < pages; i++) {
		volatile char *p = view + i * PAGE;
		int sig = sigsetjmp(out, 1);
		if (sig)
			printf(" %s%s", sig == SIGBUS ? "BUS" : "SEGV", faulted == p ? "" : "?");
		else if (writes)
			printf(" %d", *p = *p + 1);
		else
			printf(" %d", *p);
	}
	printf("\n");
}

static void must(int condition, int line)
{
	if (!condition) {
		printf("line %d: ", line);
		perror("failed");
		exit(1);
	}
}
#define MUST(what) must(!!(what), __LINE__)

static int file_of(const char *path, int length)
{
	char bytes[PAGES * PAGE];
	memset(bytes, 'a', sizeof bytes);
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	MUST(fd >= 0 && write(fd, bytes, length) == length);
	return fd;
}

static void use(const char *path, int sharing)
{
	int fd = file_of(path, 2 * PAGE + 100);
	char *view = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, sharing, fd, 0);
	MUST(view != MAP_FAILED);
	show("mapped", view, PAGES, 1);
	printf("tail %d %d\n", view[2 * PAGE + 99], view[2 * PAGE + 100]);
	MUST(pwrite(fd, "xyz", 3, 4 * PAGE + 50) == 3);
	show("written", view, PAGES, 1);
	printf("%.3s\n", view + 4 * PAGE + 50);
	MUST(ftruncate(fd, PAGE + 5) == 0);
	show("cut", view, PAGES, 1);
	printf("tail %d %d\n", view[PAGE + 4], view[PAGE + 5]);
	MUST(ftruncate(fd, 3 * PAGE) == 0);
	show("longer", view, PAGES, 1);
	MUST(mprotect(view, PAGES * PAGE, PROT_READ) == 0);
	show("read only", view, PAGES, 1);
	MUST(mprotect(view, PAGES * PAGE, PROT_READ | PROT_WRITE) == 0);
	char *moved = mremap(view, PAGES * PAGE, 2 * PAGES * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)0x100000000000);
	MUST(moved == (void *)0x100000000000);
	show("moved", moved, 2 * PAGES, 1);
	MUST(ftruncate(fd, 8 * PAGE) == 0);
	show("longer", moved, 2 * PAGES, 1);
	MUST(mremap(moved, 2 * PAGES * PAGE, 7 * PAGE, 0) == moved);
	show("less", moved, 7, 1);
	MUST(mremap(moved, 7 * PAGE, 10 * PAGE, 0) == moved);
	show("more", moved, 10, 1);
	MUST(madvise(moved, 10 * PAGE, MADV_DONTNEED) == 0);
	show("dropped", moved, 10, 1);
	MUST(munmap(moved, 10 * PAGE) == 0 && close(fd) == 0);
}

int main(int argc, char **argv)
{
	char path[200];
	struct sigaction action = {.sa_sigaction = caught, .sa_flags = SA_SIGINFO};
	snprintf(path, sizeof path, "%s/calls-file-ends-%d", argc > 1 ? argv[1] : "/tmp", getpid());
	sigaction(SIGBUS, &action, NULL);
	sigaction(SIGSEGV, &action, NULL);

	// Less than the file has, within its page.
	int fd = file_of(path, 3 * PAGE);
	char *part = mmap(NULL, 10, PROT_READ, MAP_PRIVATE, fd, PAGE);
	MUST(part != MAP_FAILED);
	printf("length 10: %d %d\n", part[100], part[PAGE - 1]);
	MUST(ftruncate(fd, 6) == 0);
	part = mmap(NULL, 2, PROT_READ, MAP_PRIVATE, fd, 0);
	MUST(part != MAP_FAILED);
	printf("length 2: %.6s %d\n", part, part[6]);
	MUST(ftruncate(fd, 0) == 0);
	part = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, fd, 0);
	MUST(part != MAP_FAILED);
	show("empty", part, 1, 0);
	part = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 100 * PAGE);
	MUST(part != MAP_FAILED);
	show("far behind", part, 1, 0);
	MUST(munmap(part, PAGE) == 0);

	use(path, MAP_SHARED);
	use(path, MAP_PRIVATE);

	int zero = open("/dev/zero", O_RDWR);
	part = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, zero, 0);
	MUST(part != MAP_FAILED);
	show("zero", part, 2, 1);
	part = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	MUST(part != MAP_FAILED);
	part = mremap(part, PAGE, 3 * PAGE, MREMAP_MAYMOVE);
	MUST(part != MAP_FAILED);
	show("anonymous", part, 3, 1);
	unlink(path);
	return 0;
}
