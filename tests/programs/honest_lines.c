// Copies a file to standard output, says so on standard error, and gives the status that its second argument names.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void copy(int fd)
{
	char buffer[64];
	ssize_t n;
	while ((n = read(fd, buffer, sizeof buffer)) > 0)
		if (write(1, buffer, n) != n)
			exit(9);
}

int main(int argc, char **argv)
{
	int fd = argc > 1 ? open(argv[1], O_RDONLY) : -1;
	if (fd < 0)
		return 1;
	copy(fd);
	fprintf(stderr, "copied in process %d\n", getpid());
	return argc > 2 ? atoi(argv[2]) : 0;
}
