// What vector registers hold behind functions of the library, which may use them; natively whatever it left there, or what
// the program had in them.
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>

#define AROUND(call) \
	({ \
		uint64_t before = 0x1234, behind; \
		__asm__ volatile("movq %0, %%xmm7" : : "r"(before) : "xmm7"); \
		call; \
		__asm__ volatile("movq %%xmm7, %0" : "=r"(behind)); \
		behind; \
	})

int main(void)
{
	pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
	pthread_barrier_t barrier;
	sem_t semaphore;
	pthread_barrier_init(&barrier, NULL, 1);
	printf("%lx ", AROUND(pthread_barrier_wait(&barrier)));
	printf("%lx ", AROUND(pthread_rwlock_timedrdlock(&lock, &(struct timespec){0})));
	printf("%lx ", AROUND(pthread_rwlock_unlock(&lock))); // uses none where nobody waits, and is only counted
	printf("%lx\n", AROUND(sem_init(&semaphore, 0, 1)));
	return 0;
}
