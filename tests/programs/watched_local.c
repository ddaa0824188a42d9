// A local variable that changes between operations, in calls that have the same frame, in two threads.
// Runs in: tests/gdb.
// May call: the kernel, threads.
// Owns: nothing.
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static int all;

__attribute__((noinline)) static void pause_here(int i)
{
	if (write(1, "", 0))
		all = i;
}

__attribute__((noinline)) static int sum_to(int n)
{
	int sum = 0;
	for (int i = 1; i <= n; i++) {
		sum += i;
		pause_here(i);
		all++;
	}
	return sum;
}

static void *work(void *arg)
{
	for (int n = 5; n < 8; n++) {
		pause_here(n);
		*(int *)arg += sum_to(n);
	}
	return NULL;
}

int main(void)
{
	int total = 0;
	pthread_t thread;
	pthread_create(&thread, NULL, work, &total);
	for (int i = 0; i < 10; i++)
		pause_here(i);
	pthread_join(thread, NULL);
	printf("%d %d\n", total, all);
	return 0;
}
