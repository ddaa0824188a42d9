// Threads that the C library makes by itself: asynchronous input, asynchronous name lookup.
#define _GNU_SOURCE
#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>

int main(void)
{
	char buffer[20] = "";
	int fd = open("/proc/sys/kernel/random/uuid", O_RDONLY);
	struct aiocb job = {.aio_fildes = fd, .aio_buf = buffer, .aio_nbytes = 18};
	const struct aiocb *jobs[] = {&job};
	aio_read(&job);
	while (aio_error(&job) == EINPROGRESS)
		aio_suspend(jobs, 1, NULL);
	printf("aio %zd %s\n", aio_return(&job), buffer);

	struct gaicb lookup = {.ar_name = "localhost"};
	struct gaicb *lookups[] = {&lookup};
	printf("lookup %d\n", getaddrinfo_a(GAI_WAIT, lookups, 1, NULL));
	printf("%s\n", gai_error(&lookup) ? "not found" : "found");
	return 0;
}
