// Loops without an operation, while another thread wants to run and ends them; natively different: how far they came. The argument
// chooses the loop; with a second one the other thread ends the process meanwhile.
#include <immintrin.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sync.h"

static volatile int flag;
static atomic_int lock;
static volatile unsigned long count, rounds;
static volatile int word;
static volatile uint64_t seen; // what the other thread finds when it ends the loop
static unsigned char block[1 << 22];
static int ends; // the other thread ends the process

static int load(void)
{
	return flag;
}

static void *other(void *arg)
{
	struct timespec now;
	for (int i = 0; i < 20; i++)
		clock_gettime(CLOCK_MONOTONIC, &now); // operations, so that the turn is wanted again
	seen = count;
	if (ends) {
		printf("%lu\n", seen);
		fflush(stdout);
		_exit(3);
	}
	atomic_store(&lock, 0);
	flag = 1;
	return arg;
}

static void spin(void)
{
	while (!flag)
		;
}

static void spin_pause(void)
{
	while (!flag)
		_mm_pause();
}

static void spin_call(void)
{
	while (!load())
		;
}

static void spin_exchange(void)
{
	while (atomic_exchange(&lock, 1))
		_mm_pause();
}

static void backoff(void)
{
	for (int pauses = 1; !flag; pauses = pauses < 64 ? 2 * pauses : 64)
		for (int i = 0; i < pauses; i++)
			_mm_pause();
}

static void growing(void)
{
	for (unsigned long pauses = 1; !flag; pauses += 3, rounds++)
		for (unsigned long i = 0; i < pauses; i++)
			_mm_pause();
}

static void memory(void)
{
	while (!flag)
		count++;
}

static void store(void)
{
	while (!flag)
		word = 1;
}

static void vector(void)
{
	__m128i sum = _mm_setzero_si128();
	const __m128i one = _mm_set1_epi64x(1);
	__asm__ volatile("1: paddq %2, %0; cmpl $0, %1; je 1b" : "+x"(sum) : "m"(flag), "x"(one) : "cc");
	count = (unsigned long)_mm_cvtsi128_si64(sum);
}

static void in_register(void)
{
	unsigned long n = 0;
	__asm__ volatile("1: inc %0; cmpl $0, %1; je 1b" : "+r"(n) : "m"(flag) : "cc");
	count = n;
}

static void work(void)
{
	uint64_t x = 88172645463325252;
	for (rounds = 0; !flag; rounds++)
		for (int i = 0; i < 1000; i++) {
			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			block[x % sizeof block]++;
		}
	count = x;
}

static void counter(void)
{
	for (rounds = 0; !flag; rounds++)
		for (uint64_t until = __builtin_ia32_rdtsc() + 1000; __builtin_ia32_rdtsc() < until;)
			;
}

static void repeat(void)
{
	for (; !flag; count++)
		memset(block, (int)count, sizeof block);
}

// The inner loop takes long, and leaves everything as it was: only the outer one tells where it stands.
static void nested(void)
{
	for (rounds = 0; !flag; rounds++)
		for (volatile unsigned long i = 0; i < 400000000 && !flag; i++)
			;
}

int main(int argc, char **argv)
{
	static const struct { const char *name; void (*run)(void); } loops[] = {
		{"spin", spin}, {"pause", spin_pause}, {"call", spin_call}, {"exchange", spin_exchange}, {"backoff", backoff},
		{"growing", growing}, {"memory", memory}, {"store", store}, {"vector", vector}, {"register", in_register},
		{"work", work}, {"counter", counter}, {"repeat", repeat}, {"nested", nested},
	};
	pthread_t thread;
	uint64_t sum = 0;
	atomic_store(&lock, 1);
	ends = argc > 2;
	CHECK(pthread_create(&thread, NULL, other, NULL) == 0);
	for (unsigned i = 0; i < sizeof loops / sizeof *loops; i++)
		if (argc > 1 && !strcmp(argv[1], loops[i].name))
			loops[i].run();
	pthread_join(thread, NULL);
	for (unsigned i = 0; i < sizeof block; i++)
		sum = sum * 31 + block[i];
	printf("%lu %lu %lu %lu\n", count, rounds, seen, sum);
	return 0;
}
