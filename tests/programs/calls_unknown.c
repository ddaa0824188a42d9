// System calls that no kernel has, and numbers of which only the lower half counts.
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

static long raw(long nr)
{
	long ret;
	__asm__ volatile("syscall" : "=a"(ret) : "a"(nr) : "rcx", "r11", "memory");
	return ret;
}

static void caught(int sig)
{
	printf("signal %d\n", sig);
}

int main(void)
{
	static const long numbers[] = {-1, 400, 511, 512, 100000, 0x40000000 + SYS_getuid, -2147483648L};
	signal(SIGUSR1, caught);
	for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; i++) {
		long first = raw(numbers[i]), again = syscall(numbers[i], 1, 2, 3);
		printf("%ld: %ld %ld %d\n", numbers[i], first, again, errno);
	}
	printf("%d\n", raw(0x100000000 | SYS_getuid) == getuid());
	raise(SIGUSR1);
	return 0;
}
