// Reads often enough for the call to be patched, says so, and waits in it for ever.
#include <stdio.h>
#include <unistd.h>

static int innermost(int fd)
{
	char c;
	return read(fd, &c, 1);
}

int middle(int fd)
{
	return innermost(fd) + 1;
}

int main(void)
{
	int fds[2];
	if (pipe(fds))
		return 1;
	for (int i = 0; i < 400; i++)
		if (write(fds[1], "x", 1) != 1 || middle(fds[0]) != 2)
			return 1;
	puts("patched");
	fflush(stdout);
	return middle(fds[0]);
}
