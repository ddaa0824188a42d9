// An allocator that the program brings along (it is linked with jemalloc), on top of the kernel's mappings: addresses, and who is
// given which block that another thread gave back; and the C library's calls for blocks of its.
#include "sync.h"

#include <malloc.h>
#include <pthread.h>
#include <stdint.h>

// Weak, so that it compiles where there is none.
__attribute__((weak)) void *mallocx(size_t size, int flags);
__attribute__((weak)) void dallocx(void *p, int flags);

#define THREADS 4
#define ROUNDS 400
#define SHELF 32

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *shelf[SHELF];
static uint64_t sum;

static void *work(void *arg)
{
	unsigned seed = (unsigned)(uintptr_t)arg;
	for (int i = 0; i < ROUNDS; i++) {
		size_t size = 1 + rand_r(&seed) % (i % 8 ? 300 : 50000);
		char *p = mallocx(size, 0);
		CHECK(p != NULL);
		p[0] = p[size - 1] = 1;
		unsigned slot = rand_r(&seed) % SHELF;
		pthread_mutex_lock(&lock);
		void *other = shelf[slot];
		shelf[slot] = p;
		sum = sum * 31 + (uintptr_t)p;
		pthread_mutex_unlock(&lock);
		switch (other ? i % 4 : 0) {
		case 1:
			CHECK(malloc_usable_size(other) > 0);
			free(other);
			break;
		case 2:
			other = realloc(other, 2 * size);
			CHECK(other != NULL && malloc_usable_size(other) >= 2 * size);
			dallocx(other, 0);
			break;
		default:
			if (other)
				dallocx(other, 0);
		}
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[THREADS];
	CHECK(mallocx && dallocx);
	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&threads[i], NULL, work, (void *)i));
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("%llx\n", (unsigned long long)sum);
	return 0;
}
