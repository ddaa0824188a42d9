// The program's own memory: mappings over, beside and instead of each other, advice, the break. Contents carry the time.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096 };

static long tick(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_REALTIME, &ts);
	return ts.tv_nsec;
}

static void *map(void *at, size_t len, int flags)
{
	void *p = mmap(at, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
	if (p == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	return p;
}

// Threads map, move and unmap at the same time: one gets the place that the other has just left.
static void *churn(void *seed)
{
	unsigned random = (uintptr_t)seed;
	uintptr_t sum = 0;
	for (int i = 0; i < 200; i++) {
		size_t len = (rand_r(&random) % 8 + 1) * PAGE;
		long *p = map(NULL, len, 0);
		p[0] = tick();
		if (i % 3 == 0) {
			long *q = mremap(p, len, 16 * PAGE, MREMAP_MAYMOVE);
			sum += q != p;
			p = q;
			len = 16 * PAGE;
		}
		sum += p[0] % 10 + (uintptr_t)p;
		munmap(p, len);
	}
	return (void *)sum;
}

int main(void)
{
	char *p = map(NULL, 16 * PAGE, 0);
	for (int i = 0; i < 16; i++)
		snprintf(p + i * PAGE, 40, "%ld", tick());
	munmap(p + 3 * PAGE, PAGE);
	char *again = map(p + 3 * PAGE, PAGE, MAP_FIXED);
	snprintf(again, 40, "%ld", tick());
	map(p + 5 * PAGE, 2 * PAGE, MAP_FIXED);
	printf("%s %s '%s' %s\n", p + 2 * PAGE, p + 3 * PAGE, p + 5 * PAGE, p + 7 * PAGE);
	printf("%s\n", mmap(p, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == MAP_FAILED ? "taken" : "free");

	madvise(p + 8 * PAGE, PAGE, MADV_FREE);
	madvise(p + 9 * PAGE, PAGE, MADV_DONTNEED);
	madvise(p + 10 * PAGE, PAGE, MADV_DONTFORK);
	madvise(p + 11 * PAGE, PAGE, MADV_WIPEONFORK);
	madvise(p + 12 * PAGE, PAGE, MADV_WILLNEED);
	printf("'%s' '%s' %s %s %s\n", p + 8 * PAGE, p + 9 * PAGE, p + 10 * PAGE, p + 11 * PAGE, p + 12 * PAGE);
	printf("%d %d\n", madvise(p + 1, PAGE, MADV_DONTNEED), madvise((void *)(1UL << 46), PAGE, MADV_DONTNEED));
	mprotect(p + 13 * PAGE, PAGE, PROT_READ);
	printf("%d %d\n", mlock(p, PAGE), munlock(p, PAGE));

	char *stack = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN, -1, 0);
	stack[3 * PAGE] = 1;
	char *top = sbrk(0);
	char *grown = sbrk(40 * PAGE);
	snprintf(grown, 40, "%ld", tick());
	printf("%d %s\n", top == grown, grown);
	sbrk(-20 * PAGE);

	// A mapping moved onto another one.
	char *target = map(NULL, 4 * PAGE, 0);
	char *moved = mremap(p, 2 * PAGE, 4 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, target);
	printf("%d %s %s\n", moved == target, target, target + PAGE);

	pthread_t threads[3];
	for (uintptr_t i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, churn, (void *)(i + 1));
	for (int i = 0; i < 3; i++) {
		void *sum;
		pthread_join(threads[i], &sum);
		printf("%p\n", sum);
	}
	return 0;
}
