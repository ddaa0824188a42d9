// Something to go back to: loops within one segment, a repeated string instruction, stores by the kernel, two threads.
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

int counter;        // 1 .. 300 in one segment, by the main thread; then 301 .. 340 by two threads in turns
int idle;           // written with the value it has
char filled[64];    // by one `rep stosb`
struct timespec stamp; // by the kernel
int calls;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

__attribute__((noinline)) void touch(char *where)
{
	*where = 1;
	idle = 0;
}

__attribute__((noinline)) void count(int to)
{
	while (counter < to)
		counter++;
}

static void *work(void *arg)
{
	for (int i = 0; i < 20; i++) {
		pthread_mutex_lock(&mutex);
		counter++;
		pthread_mutex_unlock(&mutex);
	}
	return arg;
}

int main(void)
{
	char buffer[8];
	pthread_t threads[2];
	printf("begin\n");
	count(300);
	fflush(stdout);
	for (int i = 0; i < 500; i++)
		touch(buffer); // 500 times with equal registers
	clock_gettime(CLOCK_REALTIME, &stamp);
	void *to = filled;
	unsigned long length = sizeof filled;
	__asm__ volatile("rep stosb" : "+D"(to), "+c"(length) : "a"(7) : "memory");
	clock_gettime(CLOCK_REALTIME, &stamp);
	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, work, NULL);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	printf("end %d\n", counter);
	return 0;
}
