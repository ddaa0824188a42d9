// A mapping at one address that is made, forbidden, given back and made again.
// Runs in: tests/timeline.
// May call: the kernel.
// Owns: nothing.
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define PLACE ((char *)0x30000000)
#define SIZE (1L << 16)

__attribute__((noinline)) static int touch(long at)
{
	return *(volatile char *)(PLACE + at);
}

static int make(void)
{
	return mmap(PLACE, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == PLACE;
}

int main(void)
{
	int sum = 0;
	for (int round = 0; round < 2; round++) {
		if (!make())
			return 1;
		sum += touch(5000);
		if (write(1, "", 0) || mprotect(PLACE, SIZE / 2, round ? PROT_NONE : PROT_READ))
			return 1;
		sum += touch(round ? 50000 : 9000); // behind what is watched
		if (mprotect(PLACE, SIZE, PROT_READ | PROT_WRITE))
			return 1;
		sum += round ? touch(12000) : 0;
		if (munmap(PLACE, SIZE))
			return 1;
	}
	printf("%d\n", sum);
	return 0;
}
