// Words in pages of their own, each of which is stored to in a few places of a long run in a way of its own, while nothing else
// touches its page: by instructions, with the value that is there, by the kernel, by mapping over it, moving it and dropping it.
// Natively different: the process's id.
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define AREA ((char *)0x30000000) // pages 0..3: mapped over, dropped, moved to, moved from
#define PAGE 4096
#define QUIET 14                  // operations: some epochs

struct page { int word; char rest[PAGE - sizeof(int)]; } __attribute__((aligned(PAGE)));

struct page early, same, back, kernel, late, zeros;
int pid;
static volatile int sum;

static void quiet(void)
{
	for (int i = 0; i < QUIET; i++)
		pid = getpid();
}

static int *at(int page)
{
	return (int *)(AREA + page * PAGE);
}

static void map(int page, int value)
{
	if (mmap(at(page), PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != at(page))
		_exit(1);
	if (value)
		*at(page) = value;
}

int main(void)
{
	int ends[2], next = 5;
	for (int page = 0; page < 4; page++)
		map(page, page + 1);
	zeros.word = 0;
	early.word = same.word = back.word = kernel.word = late.word = 1;
	quiet();
	early.word = 2;
	quiet();
	same.word = 1;                                         // no change, but a store
	quiet();
	back.word = 2;                                         // a change, and back
	back.word = 1;
	quiet();
	if (pipe(ends) || write(ends[1], &next, sizeof next) != sizeof next || read(ends[0], &kernel.word, sizeof next) != sizeof next)
		return 1;
	quiet();
	map(0, 7);
	quiet();
	madvise(at(1), PAGE, MADV_DONTNEED);
	sum += *at(1);                                         // the kernel's page of zeros
	quiet();
	if (mremap(at(3), PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, at(2)) != (void *)at(2))
		return 1;
	quiet();
	zeros.word = 1;
	zeros.word = 0;
	quiet();
	map(1, 0);                                             // read, stored to, dropped and read again: as if nothing had been
	sum += *at(1);
	quiet();
	*at(1) = 9;
	madvise(at(1), PAGE, MADV_DONTNEED);
	sum += *at(1);
	quiet();
	munmap(at(0), PAGE);
	quiet();
	late.word = 2;
	printf("%d %d\n", pid, sum);
	return 0;
}
