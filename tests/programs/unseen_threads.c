// What gdbrr does not see, the time stamp counter, kept by a second thread in places of every kind while the first one does operations.
// Natively different: all of them; nothing is printed of it.
#include "sync.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <unistd.h>

#define ROUNDS 40

unsigned long counter;
static __thread unsigned long own;
static sem_t asked, done;

static void *keep(void *arg)
{
	volatile unsigned long local = 0x10ca1, *block = malloc(40), *to = NULL;
	switch (*(const char *)arg) {
	case 'g':
		to = &counter;
		break;
	case 'h':
		to = &block[2];
		break;
	case 's':
		to = &local;
		break;
	case 't':
		to = &own;
		break;
	}
	for (int i = 0; i < ROUNDS; i++) {
		CHECK(!sem_wait(&asked));
		if (i >= ROUNDS / 2 && to) // behind some digests; no register keeps it
			__asm__ volatile("rdtsc; mov %%eax, (%0); xor %%eax, %%eax; xor %%edx, %%edx" : : "r"(to) : "eax", "edx", "memory");
		CHECK(!sem_post(&done));
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	sem_init(&asked, 0, 0);
	sem_init(&done, 0, 0);
	CHECK(!pthread_create(&thread, NULL, keep, argc > 1 ? argv[1] : "nowhere"));
	for (int i = 0; i < ROUNDS; i++) {
		CHECK(!sem_post(&asked));
		getppid();
		CHECK(!sem_wait(&done));
		getppid();
	}
	pthread_join(thread, NULL);
	puts("end");
	return 0;
}
