// An output that is a file, written elsewhere than at its end: lseek, pwrite, and standard error at the same place.
// Runs in: a program of its own, natively, recorded and replayed.
// May call: libc.
// Owns: nothing.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static void put(const char *text, int length)
{
	if (write(1, text, length) != length)
		abort();
}

int main(void)
{
	char text[64];
	off_t start = lseek(1, 0, SEEK_CUR);
	struct iovec parts[2] = {{"<>", 2}, {"()", 2}};
	int n = snprintf(text, sizeof text, "%ld differs\n", (long)time(NULL) * 100000 + getpid());
	put("head....body\n", 13);
	put(text, n);
	if (start >= 0) {
		lseek(1, start + 4, SEEK_SET);
		put("1234", 4);
		lseek(1, 2, SEEK_CUR);
		put("D", 1);
		lseek(1, 0, SEEK_END);
	}
	put("tail\n", 5);
	if (pwrite(1, "X", 1, start + 1) == 1 && pwritev(1, parts, 2, start + 13 + n) == 4)
		put("end\n", 4);
	if (lseek(1, 5, SEEK_END) >= 0)
		put("behind a hole\n", 14);
	return 0;
}
