// Threads that allocate, resize and free each other's blocks of all sizes: what differs natively is who meets which block, and
// where blocks lie. The sum is over addresses, so a replay with another layout prints another line.
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 4, ROUNDS = 4000, SHELF = 64 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct { unsigned char *p; size_t size; } shelf[SHELF];
static uint64_t sum;

static size_t some_size(unsigned *seed)
{
	static const size_t most[] = {64, 64, 64, 500, 500, 5000, 40000, 300000};
	return 1 + rand_r(seed) % most[rand_r(seed) % 8];
}

static void check(const unsigned char *p, size_t size, unsigned char want)
{
	if (p[0] != want || p[size - 1] != want || malloc_usable_size((void *)p) < size) {
		fprintf(stderr, "block of %zu bytes was overwritten\n", size);
		abort();
	}
}

static void *work(void *arg)
{
	unsigned seed = (uintptr_t)arg;
	for (int i = 0; i < ROUNDS; i++) {
		size_t size = some_size(&seed);
		unsigned char *p;
		switch (rand_r(&seed) % 4) {
		case 0:
			p = aligned_alloc(1 << (4 + rand_r(&seed) % 10), size);
			break;
		case 1:
			p = calloc(1, size);
			check(p, size, 0);
			break;
		case 2:
			p = malloc(size);
			memset(p, 7, size);
			size = some_size(&seed);
			p = realloc(p, size);
			break;
		default:
			p = malloc(size);
		}
		unsigned slot = rand_r(&seed) % SHELF;
		memset(p, slot, size);
		pthread_mutex_lock(&lock);
		unsigned char *other = shelf[slot].p;
		size_t other_size = shelf[slot].size;
		shelf[slot].p = p;
		shelf[slot].size = size;
		sum = sum * 31 + (uintptr_t)p;
		pthread_mutex_unlock(&lock);
		if (other)
			check(other, other_size, slot);
		free(other);
	}
	return NULL;
}

int main(void)
{
	for (int generation = 0; generation < 3; generation++) {
		pthread_t thread[THREADS];
		for (uintptr_t i = 0; i < THREADS; i++)
			pthread_create(&thread[i], NULL, work, (void *)(generation * 10 + i + 1));
		for (int i = 0; i < THREADS; i++)
			pthread_join(thread[i], NULL);
	}
	printf("%lx\n", (unsigned long)sum);
	return 0;
}
