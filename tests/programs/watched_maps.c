// Memory that operations map over, drop, move and shrink: a place there changes, or not, without a store to it.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096
static char *place;

static void watched_from_here(void)
{
}

int main(void)
{
	FILE *file = tmpfile();
	place = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	fwrite("abcd", 1, 4, file);
	fflush(file);
	watched_from_here();
	place[0] = 'b';
	mmap(place, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0); // b: 0
	place[1] = 1;
	madvise(place, PAGE, MADV_DONTNEED); // the same
	place[0] = 'c';
	madvise(place, PAGE, MADV_DONTNEED); // c: 0
	mmap(place, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fileno(file), 0); // 0: a
	place[0] = 'd';
	mmap(place, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fileno(file), 0); // d: a
	mprotect(place, PAGE, PROT_READ);
	printf("%c\n", place[0]);
	return 0;
}
