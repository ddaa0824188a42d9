// Prints what lies in memory it never initialised: a replay must find the same there.
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static unsigned long sum;

static __attribute__((noinline)) void look(void)
{
	unsigned char dead[6000];
	__asm__ volatile("" : : "r"(dead) : "memory"); // for all the compiler knows, somebody filled it
	for (unsigned i = 0; i < sizeof dead; i++)
		sum = sum * 31 + dead[i];
}

static __attribute__((noinline)) void dirty(void)
{
	struct stat st;
	struct timespec now;
	unsigned char buffer[4000];
	memset(buffer, 7, sizeof buffer);
	stat("/proc/self/stat", &st);
	clock_gettime(CLOCK_MONOTONIC, &now);
	sum += buffer[now.tv_nsec % sizeof buffer];
}

int main(void)
{
	look();
	for (int i = 0; i < 10; i++) {
		dirty();
		look();
	}
	printf("%lx %d\n", sum, (int)getpid());
	return 0;
}
