// An area of a mebibyte that is read and stored to here and there, by each kind of instruction, by the kernel and by a lock in it.
// Runs in: tests/timeline, tests/gdb.
// May call: the kernel, threads.
// Owns: nothing.
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MIB (1L << 20)

__attribute__((aligned(4096))) struct {
	char before[40];
	unsigned char data[MIB];
	pthread_mutex_t lock;
	char behind[40];
} area;
static char copy[3 * 4096];
static int sum;

__attribute__((noinline)) static void pause_here(void)
{
	if (write(1, "", 0))
		sum = -1;
}

__attribute__((noinline)) static int get(long at)
{
	return area.data[at];
}

__attribute__((noinline)) static void put(long at, unsigned char value)
{
	area.data[at] = value;
}

__attribute__((noinline)) static long across(const void *at)
{
	return *(volatile long *)at;
}

__attribute__((noinline)) static void beside(void)
{
	area.before[39]++;
	area.behind[0] += area.before[0];
}

__attribute__((noinline)) static void repeated(void *to, const void *from, long count)
{
	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(count) : : "memory");
}

__attribute__((noinline)) static void swapped(void *at)
{
	char other[16];
	__asm__ volatile("movups (%0), %%xmm0; movups %%xmm0, (%1)" : : "r"(at), "r"(other) : "xmm0", "memory");
}

static void *work(void *arg)
{
	for (int i = 0; i < 3; i++) {
		sum += get(300000 + i * 100000);
		pause_here();
		pthread_mutex_lock(&area.lock);
		sum++;
		pthread_mutex_unlock(&area.lock);
	}
	return arg;
}

int main(void)
{
	pthread_t thread;
	int fd = open("/dev/zero", O_RDONLY), null = open("/dev/null", O_WRONLY);
	pthread_mutex_init(&area.lock, NULL);
	pause_here();
	put(0, 1);
	sum += get(0);
	beside();
	pause_here();
	sum += (int)across(area.data - 4); // begins in front of the data
	sum += (int)across(area.data + 4096 * 7 - 40 - 3); // over the border of a page
	sum += (int)across(area.data - 8); // ends in front of it
	pause_here();
	repeated(copy, area.data + 5000, sizeof copy - 7);
	repeated(area.data + 900001, copy, 9000);
	swapped(area.data + 5555);
	beside();
	put(777777, 0); // as it was
	pause_here();
	if (read(fd, area.data + 50000, 6000) != 6000 || write(null, area.data, 5000) != 5000)
		return 1;
	memcpy(copy, area.data + 60000, 64);
	pthread_create(&thread, NULL, work, NULL);
	for (int i = 0; i < 3; i++) {
		put(1000 * i, (unsigned char)i);
		pause_here();
		beside();
	}
	pthread_join(thread, NULL);
	sum += get(MIB - 1);
	sum += (int)across(area.data + MIB - 3); // into what is behind it
	pause_here();
	printf("%d\n", sum & 1);
	return 0;
}
