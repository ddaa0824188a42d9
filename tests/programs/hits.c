// Stores of every kind to known places: more in one segment than a log of hits holds, by the kernel, by mapping over them, by
// two threads, by a call instruction, into a region longer than a debug register. Natively different: the process's id.
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define PLACE ((void *)0x30000000)

int value;              // 1 .. 3000 in one segment; then 3001 by read(2); then 3002 .. 3041 by two threads in turns
long block[4];          // block[i] = 10 + i, in order, and then block[2] = 99
int *heap;              // heap[2] = 8, and then the end of the heap goes back and forth over it
int pid;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

__attribute__((noinline)) void leaf(void)
{
	__asm__ volatile("" ::: "memory");
}

// Three calls that push their return address to one place; the stores in between are to others.
__attribute__((noinline)) void caller(void)
{
	leaf();
	value += 0;
	leaf();
	leaf();
}

static void *work(void *arg)
{
	for (int i = 0; i < 20; i++) {
		pthread_mutex_lock(&mutex);
		value++;
		pthread_mutex_unlock(&mutex);
	}
	return arg;
}

int main(void)
{
	int ends[2], next = 3001;
	pthread_t threads[2];
	for (int i = 1; i <= 3000; i++)
		value = i;
	pid = getpid();
	for (int i = 0; i < 4; i++)
		block[i] = 10 + i;
	block[2] = 99;
	if (pipe(ends) || write(ends[1], &next, sizeof next) != sizeof next || read(ends[0], &value, sizeof value) != sizeof value)
		return 1;
	volatile int *page = mmap(PLACE, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (page != PLACE)
		return 1;
	page[2] = 5;
	page = mmap(PLACE, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	page[2] = 6;
	madvise(PLACE, 4096, MADV_DONTNEED);
	page[2] = 7;
	munmap(PLACE, 4096);
	heap = sbrk(8192);
	heap[2] = 8;
	sbrk(-8192);
	sbrk(8192);
	caller();
	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, work, NULL);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	printf("%d %d\n", value, pid);
	return 0;
}
