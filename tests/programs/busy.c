// Two threads that print, read clocks and files and pass a mutex to and fro, without end; with an argument, that many rounds.
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static unsigned long sum;
static long rounds;

static void *work(void *name)
{
	char line[64], data[4096];
	for (long i = 0; rounds == 0 || i < rounds; i++) {
		struct timespec now;
		clock_gettime(CLOCK_MONOTONIC, &now);
		int fd = open("/dev/urandom", O_RDONLY);
		if (read(fd, data, sizeof data) != sizeof data)
			return NULL;
		close(fd);
		pthread_mutex_lock(&mutex);
		sum = sum * 31 + now.tv_nsec + data[0];
		int n = snprintf(line, sizeof line, "%s %ld %lx\n", (char *)name, i, sum);
		if (write(1, line, n) != n)
			return NULL;
		pthread_mutex_unlock(&mutex);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t other;
	rounds = argc > 1 ? atol(argv[1]) : 0;
	pthread_create(&other, NULL, work, "b");
	work("a");
	pthread_join(other, NULL);
	printf("end\n");
	return 7;
}
