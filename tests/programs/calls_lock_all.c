// Locking all memory, as somebody for whom there is a limit: it is enough for a small program, and for what comes then it is not.
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static void told(const char *what, int ret)
{
	printf("%s: %d %s\n", what, ret, ret < 0 ? strerrorname_np(errno) : "");
}

static void *map(size_t size)
{
	return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

int main(void)
{
	told("nothing", mlockall(0));
	told("wrong", mlockall(64));
	told("only on fault", mlockall(MCL_ONFAULT));
	told("current", mlockall(MCL_CURRENT));
	char *p = malloc(1000), *q = map(100000);
	strcpy(p, "heap");
	strcpy(q, "mapping");
	told("unlock", munlockall());
	char *large = map(64 << 20);
	told("too much", mlockall(MCL_CURRENT));
	munmap(large, 64 << 20);
	told("future", mlockall(MCL_CURRENT | MCL_FUTURE));
	char *small = map(8192);
	told("small mapping", small == MAP_FAILED ? -1 : 0);
	told("large mapping", map(64 << 20) == MAP_FAILED ? -1 : 0);
	strcpy(small, "small");
	printf("%s %s %s\n", p, q, small);
	told("unlock", munlockall());
	told("large mapping", map(64 << 20) == MAP_FAILED ? -1 : 0);
	return 0;
}
