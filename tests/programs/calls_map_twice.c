// One file mapped at several places, shared: a store to one of them shows in the others, while both grow, move and go.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096 };

static void must(int condition, int line)
{
	if (!condition) {
		printf("line %d: ", line);
		perror("failed");
		exit(1);
	}
}
#define MUST(what) must(!!(what), __LINE__)

static char *map(int fd, int pages, int prot, int from)
{
	char *p = mmap(NULL, pages * PAGE, prot, MAP_SHARED, fd, from * PAGE);
	MUST(p != MAP_FAILED);
	return p;
}

static void use(int fd)
{
	MUST(ftruncate(fd, 8 * PAGE) == 0 && pwrite(fd, "beginning", 10, 0) == 10);
	char *both = map(fd, 8, PROT_READ | PROT_WRITE, 0), *reads = map(fd, 8, PROT_READ, 0), *part = map(fd, 2, PROT_READ, 3);
	printf("%s %s\n", both, reads);
	strcpy(both + 100, "through one");
	printf("%s\n", reads + 100);
	strcpy(both + 3 * PAGE, "through all");
	printf("%s %s\n", reads + 3 * PAGE, part);
	MUST(mprotect(part, 2 * PAGE, PROT_READ | PROT_WRITE) == 0);
	strcpy(part + PAGE, "and back");
	printf("%s %s\n", reads + 4 * PAGE, both + 4 * PAGE);
	MUST(pwrite(fd, "by write", 9, 5 * PAGE) == 9);
	printf("%s %s\n", reads + 5 * PAGE, both + 5 * PAGE);
	for (int i = 0; i < 1000; i++) {
		__atomic_add_fetch((int *)(both + 6 * PAGE), 1, __ATOMIC_RELAXED);
		if (*(volatile int *)(reads + 6 * PAGE) != i + 1)
			printf("differs at %d\n", i);
	}

	char *moved = mremap(reads, 8 * PAGE, 12 * PAGE, MREMAP_MAYMOVE);
	MUST(moved != MAP_FAILED && ftruncate(fd, 12 * PAGE) == 0);
	char *more = map(fd, 12, PROT_READ | PROT_WRITE, 0);
	strcpy(more + 10 * PAGE, "behind the old end");
	strcpy(both, "moved");
	printf("%s %s %s\n", moved + 10 * PAGE, moved, more);
	MUST(ftruncate(fd, 11 * PAGE + 10) == 0 && ftruncate(fd, 12 * PAGE) == 0);
	strcpy(more + 11 * PAGE, "once more");
	printf("%s\n", moved + 11 * PAGE);
	MUST(munmap(both, 8 * PAGE) == 0);
	strcpy(more + 200, "without the first");
	printf("%s %s\n", moved + 200, part);
	MUST(madvise(moved, 12 * PAGE, MADV_DONTNEED) == 0);
	printf("%s %s\n", moved + 200, more + 200);
	MUST(munmap(more, 12 * PAGE) == 0 && munmap(moved, 12 * PAGE) == 0 && munmap(part, 2 * PAGE) == 0);
}

int main(int argc, char **argv)
{
	char path[] = "/tmp/calls-map-twice-XXXXXX";
	int file = mkstemp(path), memory = memfd_create("memory", 0);
	MUST(file >= 0 && memory >= 0);
	unlink(path);
	use(file);
	use(memory);

	// Two that are only read, until a third one is not.
	char *first = map(memory, 1, PROT_READ, 0), *second = map(memory, 1, PROT_READ, 0), *third = map(memory, 1, PROT_READ | PROT_WRITE, 0);
	strcpy(third, "three");
	printf("%s %s\n", first, second);

	// Without a file.
	char *one = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	strcpy(one, "no name");
	char *two = mremap(one, 0, 2 * PAGE, MREMAP_MAYMOVE);
	MUST(two != MAP_FAILED);
	strcpy(two + PAGE, "two places");
	printf("%s %s\n", two, one + PAGE);

	// Code that is written at one place and run at the other.
	char *code = map(memory, 1, PROT_READ | PROT_EXEC, 1), *written = map(memory, 1, PROT_READ | PROT_WRITE, 1);
	for (int i = 1; i < 4; i++) {
		memcpy(written, (char[]){0xb8, i, 0, 0, 0, 0xc3}, 6); // mov $i, %eax; ret
		printf("%d ", ((int (*)(void))code)());
	}
	printf("\n");
	for (int i = 0; argc > 1 && i < atoi(argv[1]); i++) { // operations, for checkpoints between them
		one[0] = (char)getppid();
		__atomic_add_fetch((int *)(two + 100), 1, __ATOMIC_RELAXED);
		if (*(int *)(one + 100) != i + 1 || one[0] != two[0])
			printf("differs at %d\n", i);
	}
	return 0;
}
