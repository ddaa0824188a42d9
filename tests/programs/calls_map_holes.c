// Much more of a file is mapped, twice, than there is memory: nearly all of it are holes.
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int main(void)
{
	long size = 8L << 30, giga = 1L << 30;
	int fd = memfd_create("holes", 0);
	if (fd < 0 || ftruncate(fd, size) || pwrite(fd, "far", 4, 7 * giga + 5) != 4 || pwrite(fd, "near", 5, 4090) != 5)
		return 1;
	char *here = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	char *there = mmap(NULL, size / 2, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, size / 2);
	if (here == MAP_FAILED || there == MAP_FAILED)
		return 1;
	strcpy(there + giga, "away");
	printf("%s %s %s %d\n", here + 4090, here + 7 * giga + 5, here + size / 2 + giga, here[6 * giga]);
	strcpy(here + 5 * giga, "and back");
	printf("%s %s\n", there + 3 * giga + 5, there + giga);
	return 0;
}
