// Reads a file of 8-byte records: through a descriptor, a copy of it that shares its place, and one opened anew with a place of its
// own; now and then it goes back. Natively different: the times in between.
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "sync.h"

uint64_t newest, other;
int count;

int main(int argc, char **argv)
{
	struct timespec now;
	long sum = 0;
	int first = open(argv[argc > 1], O_RDONLY), copy = dup(first), second = open(argv[argc > 1], O_RDONLY);
	CHECK(first >= 0 && copy >= 0 && second >= 0);
	for (int i = 0; i < 400; i++) {
		CHECK(read(i % 2 ? first : copy, &newest, sizeof newest) == sizeof newest);
		count = i + 1;
		clock_gettime(CLOCK_MONOTONIC, &now);
		sum += now.tv_nsec + (long)(newest % 7);
		if (i % 10 == 0)
			CHECK(read(second, &other, sizeof other) == sizeof other);
		if (i % 100 == 99)
			CHECK(lseek(copy, (i - 40) * 8, SEEK_SET) == (i - 40) * 8);
	}
	printf("%ld %lu\n", sum, (unsigned long)other);
	return 0;
}
