// Uses files, clocks and ids, and lets its output depend on what its arguments say.
// Runs in: tests. May call: libc.
// Owns: the words: `day` prints the day, `pid` the process, `proc` reads what the kernel makes up, `state` keeps a file.

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static long sum_of(const char *path)
{
	char text[4096];
	int file = open(path, O_RDONLY);
	long sum = 0;
	ssize_t size;
	while ((size = read(file, text, sizeof text)) > 0)
		for (ssize_t i = 0; i < size; i++)
			sum += text[i];
	close(file);
	return sum;
}

static bool asked(int argc, char **argv, const char *word)
{
	for (int i = 2; i < argc; i++)
		if (!strcmp(argv[i], word))
			return true;
	return false;
}

int main(int argc, char **argv)
{
	struct timespec now;
	long odd = 0, pid = 0;
	for (int i = 0; i < 100; i++) {
		clock_gettime(CLOCK_REALTIME, &now);
		odd += now.tv_nsec & 1;
		pid = getpid();
	}
	printf("%ld %d\n", sum_of(argv[1]), odd >= 0);
	if (asked(argc, argv, "day"))
		printf("day %ld\n", (long)now.tv_sec / 86400);
	if (asked(argc, argv, "pid"))
		printf("pid %ld\n", pid);
	if (asked(argc, argv, "proc"))
		printf("%d\n", sum_of("/proc/self/maps") > 0);
	if (asked(argc, argv, "state")) {
		char path[4096];
		snprintf(path, sizeof path, "%s.state", argv[1]);
		printf("%ld\n", sum_of(path));
		fflush(stdout);
		int file = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
		char line[1000];
		memset(line, 'x', sizeof line);
		if (write(file, line, sizeof line) != sizeof line)
			return 1;
	}
	return 0;
}
