// The time stamp counter as programs use it: threads that back off for so many cycles where a lock is taken, and count the
// rounds. What natively differs from run to run is every number that is printed.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t total, newest;

static uint64_t counter(void)
{
	uint32_t low, high;
	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
	return (uint64_t)high << 32 | low;
}

// With a prefix that changes nothing, and registers that must be left alone.
static uint64_t counter_and_processor(uint32_t *processor)
{
	uint64_t low, high, kept = 0x1122334455667788, word = kept;
	__asm__ volatile(".byte 0x48\n\trdtsc" : "=a"(low), "=d"(high), "+c"(word));
	if (word != kept || low >> 32 || high >> 32)
		abort();
	__asm__ volatile("rdtscp" : "=a"(low), "=d"(high), "=c"(word));
	*processor = (uint32_t)word;
	return high << 32 | low;
}

static unsigned back_off(uint64_t cycles)
{
	unsigned rounds = 0;
	for (uint64_t start = counter(); counter() - start < cycles; rounds++)
		__asm__ volatile("pause");
	return rounds;
}

static void note(uint64_t value)
{
	newest = value;
	total = total * 31 + value;
}

static void *work(void *name)
{
	unsigned rounds = 0, tries = 0;
	uint32_t processor;
	for (int i = 0; i < 8; i++) {
		for (uint64_t cycles = 2000; pthread_mutex_trylock(&lock); cycles *= 2, tries++)
			rounds += back_off(cycles < 1000000 ? cycles : 1000000);
		rounds += back_off(30000);
		note(counter_and_processor(&processor) + processor);
		pthread_mutex_unlock(&lock);
		rounds += back_off(3000);
	}
	pthread_mutex_lock(&lock);
	printf("%s: %u rounds, %s tries\n", (char *)name, rounds, tries ? "some" : "no");
	pthread_mutex_unlock(&lock);
	return NULL;
}

int main(int argc, char **argv)
{
	static char *names[] = {"a", "b", "c", "d"};
	pthread_t threads[4];
	int count = argc > 1 ? atoi(argv[1]) : 0;
	for (int i = 0; i < count; i++)
		pthread_create(&threads[i], NULL, work, names[i]);
	if (!count)
		work("main");
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	printf("%llx, the newest %llx\n", (unsigned long long)total, (unsigned long long)newest);
	return 0;
}
