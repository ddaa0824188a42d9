// Functions to be called in the past: they compute, allocate, print, lock, crash, and reach outside. What natively
// differs is who has the lock when.
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long total;

long add(long a, long b)
{
	return a + b + total;
}

char *twice(const char *text)
{
	size_t length = strlen(text);
	char *both = malloc(2 * length + 1);
	memcpy(both, text, length);
	memcpy(both + length, text, length + 1);
	return both;
}

int say(const char *text)
{
	printf("said %s\n", text);
	fflush(stdout);
	return (int)write(2, "plainly\n", 8);
}

int make_file(const char *path)
{
	return open(path, O_CREAT | O_WRONLY, 0600);
}

long locked_total(void)
{
	pthread_mutex_lock(&lock);
	long found = total;
	pthread_mutex_unlock(&lock);
	return found;
}

int crash(void)
{
	return *(volatile int *)8;
}

void holding(int round)
{
	total += round;
}

static void *work(void *name)
{
	for (int i = 1; i <= 4; i++) {
		pthread_mutex_lock(&lock);
		holding(i);
		pthread_mutex_unlock(&lock);
		usleep(100);
	}
	return name;
}

int main(void)
{
	pthread_t a, b;
	pthread_create(&a, NULL, work, "a");
	pthread_create(&b, NULL, work, "b");
	pthread_join(a, NULL);
	pthread_join(b, NULL);
	printf("total %ld\n", total);
	return 0;
}
