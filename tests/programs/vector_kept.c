// What a thread keeps in the vector registers that only AVX-512 has, over a stop for a debugger and over a loop without an operation that
// waits for the other thread. The value comes from the clock: natively different.
#include <pthread.h>
#include <string.h>

#include "sync.h"

static volatile int there, seen;
static char drawn[64], stored[64];
static volatile size_t length = sizeof drawn - 1; // no store of the compiler's

__attribute__((noinline)) void passed(void) // for a debugger
{
	__asm__ volatile("");
}

static void *other(void *arg)
{
	while (!there)
		;
	seen = 1;
	return arg;
}

__attribute__((target("avx512f"))) int main(void)
{
	pthread_t thread;
	struct timespec now;
	CHECK(pthread_create(&thread, NULL, other, NULL) == 0);
	clock_gettime(CLOCK_MONOTONIC, &now);
	memset(drawn, (char)('a' + now.tv_nsec / 64 % 26), length);
	__asm__ volatile("vmovdqu64 %0, %%zmm16" : : "m"(drawn) : "xmm16");
	passed();
	there = 1;
	while (!seen)
		;
	__asm__ volatile("vmovdqu64 %%zmm16, %0" : "=m"(stored));
	CHECK(pthread_join(thread, NULL) == 0);
	printf("%s\n", stored);
	return 0;
}
