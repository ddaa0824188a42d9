// A heap goes on to addresses that were none of its memory, and in the same breath these are written to. Then the program looks at
// all of its memory, and locks it, as programs do that must not wait for a page.
// What differs natively is where it is.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define THREADS 8
#define PAGE 4096
#define MOST (1UL << 30)

struct place { char data[20 * PAGE]; };

static pthread_barrier_t all;
static struct place *place;

static void *begin(void *unused)
{
	free(malloc(100));
	pthread_barrier_wait(&all);
	pthread_barrier_wait(&all);
	return unused;
}

static void grow(void)
{
	place = (struct place *)((char *)malloc(8 << 20) + (4 << 20));
	for (int i = 0; i < 5; i++)
		place->data[i * 3 * PAGE] = 'a' + i;
	place->data[0] = 'z';
}

// The memory that it takes.
static size_t held(void)
{
	FILE *status = fopen("/proc/self/status", "r");
	unsigned long sum = 0;
	char line[4096];
	mlockall(MCL_CURRENT);
	while (fgets(line, sizeof line, status))
		sscanf(line, "VmRSS: %lu", &sum);
	fclose(status);
	munlockall();
	return sum << 10;
}

// The bytes of private memory that can be written to.
static size_t seen(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned long from, to, sum = 0;
	char line[4096], rights[5];
	while (fgets(line, sizeof line, maps))
		if (sscanf(line, "%lx-%lx %4s", &from, &to, rights) == 3 && !strcmp(rights, "rw-p"))
			sum += to - from;
	fclose(maps);
	return sum;
}

int main(void)
{
	pthread_t threads[THREADS];
	pthread_barrier_init(&all, NULL, THREADS + 1);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, begin, NULL);
	pthread_barrier_wait(&all);
	grow();
	size_t sum = seen(), own = held();
	pthread_barrier_wait(&all);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	puts(sum < MOST && own < MOST ? "less than a gigabyte" : "more");
	return place->data[0] != 'z';
}
