// An area of 64 MiB: cleared, filled, copied into, read into, and changed here and there; its changes are told by a formula.
// Runs in: tests/timeline, tests/gdb.
// May call: the kernel.
// Owns: nothing.
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define WORDS (8L << 20)
#define BYTES (WORDS * 8)
#define MIB (1L << 20)

uint64_t area[WORDS];
static char from[MIB];
static uint64_t chance = 1;
static int number;

__attribute__((noinline)) static void pause_here(void)
{
	if (write(1, "", 0))
		number = -1;
}

__attribute__((noinline)) static void put(long at, uint64_t value)
{
	area[at] = value;
}

// The test does the same.
static void scatter(int count)
{
	for (int i = 0; i < count; i++) {
		chance = chance * 6364136223846793005u + 1442695040888963407u;
		put(chance >> 41, chance >> 33 & 1);
	}
}

int main(void)
{
	char *bytes = (char *)area;
	int fd = open("/dev/zero", O_RDONLY);
	pause_here();
	memset(bytes + 5, 0, 12 * MIB); // changes nothing
	for (long i = 0; i < MIB; i += 128)
		area[i] = 0; // nor does this
	put(100, 1);
	put(100, 0); // and back
	pause_here();
	for (number = 0; number < 3; number++) {
		scatter(8);
		pause_here();
	}
	memset(bytes + 50 * MIB + 3, 7, MIB);
	pause_here();
	for (long i = 0; i < MIB; i++)
		from[i] = (char)i;
	memcpy(bytes + 20 * MIB + 1, from, MIB / 16);
	pause_here();
	if (read(fd, bytes + 50 * MIB, 100000) < 0)
		return 1;
	pause_here();
	char *to = bytes + 60 * MIB + 7;
	long count = MIB;
	__asm__ volatile("rep stosb" : "+D"(to), "+c"(count) : "a"(5) : "memory");
	pause_here();
	printf("%d\n", number + (int)area[7]);
	return 0;
}
