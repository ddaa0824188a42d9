// Reads a file and dies of one word in it; the times that it reads are of no matter.
// Runs in: tests. May call: libc.
// Owns: the word: BUG and a letter, which is the address that is written to.

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int letter;

static void parse(const char *text, ssize_t size)
{
	for (ssize_t i = 0; i + 4 <= size; i++)
		if (!memcmp(text + i, "BUG", 3))
			letter = text[i + 3];
}

int main(int argc, char **argv)
{
	static char text[100];
	struct timespec now;
	int file = open(argv[1], O_RDONLY);
	long odd = 0;
	ssize_t size;
	while ((size = read(file, text, sizeof text)) > 0) {
		parse(text, size);
		clock_gettime(CLOCK_REALTIME, &now);
		odd += now.tv_nsec & 1;
	}
	if (argc > 2)
		printf("%d, and %ld odd times\n", letter, odd);
	fflush(stdout);
	if (letter)
		*(volatile char *)(long)letter = 1;
	return 0;
}
