// Mappings of all kinds, and limits that are in the way of some: locked, droppable, in large pages, executable because readable.
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <unistd.h>

#ifndef MAP_DROPPABLE
#define MAP_DROPPABLE 8
#endif

static const unsigned char answers[] = {0xb8, 42, 0, 0, 0, 0xc3}; // mov $42, %eax; ret

static int run(const void *code)
{
	return ((int (*)(void))code)();
}

static void told(const char *what, const void *ret)
{
	printf("%s: %s\n", what, ret == MAP_FAILED ? strerrorname_np(errno) : "done");
}

int main(void)
{
	struct rlimit limit;
	getrlimit(RLIMIT_DATA, &limit);

	char *locked = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_LOCKED | MAP_POPULATE, -1, 0);
	told("locked", locked);
	strcpy(locked, "locked text");
	printf("%s %d\n", locked, munlock(locked, 8192));

	char *dropped = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_DROPPABLE | MAP_ANONYMOUS, -1, 0);
	if (dropped != MAP_FAILED)
		dropped[0] = 1;
	if (fork() == 0)
		_exit(0); // no child shares it
	errno = 0;

	char *large = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	if (large != MAP_FAILED) { // a machine with such pages
		strcpy(large + (1 << 20), "in the middle of a large page");
		fprintf(stderr, "%s ", large + (1 << 20));
		fprintf(stderr, "%d ", munmap(large, 4096));
		fprintf(stderr, "%d\n", munmap(large, 2 << 20));
	}

	char *top = sbrk(0);
	told("break", sbrk(8192));
	strcpy(top, "above the heap");
	limit.rlim_cur = 4096;
	printf("%d\n", setrlimit(RLIMIT_DATA, &limit));
	told("limited", sbrk(1 << 20));
	limit.rlim_cur = limit.rlim_max;
	printf("%d\n", setrlimit(RLIMIT_DATA, &limit));
	told("again", sbrk(4096));
	printf("%s %d\n", top, (int)((char *)sbrk(0) - top));

	unsigned char *data = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy(data, answers, sizeof answers);
	mprotect(data, 4096, PROT_READ | PROT_EXEC);
	printf("%d\n", run(data));
	personality(personality(0xffffffff) | READ_IMPLIES_EXEC);
	unsigned char *runs = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy(runs, answers, sizeof answers);
	printf("%d\n", run(runs));
	mprotect(data, 4096, PROT_READ);
	printf("%d\n", run(data));
	return 0;
}
