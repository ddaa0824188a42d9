// Threads that allocate and lock while main does so in few lines, to be stepped through; and a call with code right behind it.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile int going = 1;
static int busy;

static void *works(void *arg)
{
	__atomic_fetch_add(&busy, 1, __ATOMIC_SEQ_CST);
	while (going) {
		pthread_mutex_lock(&lock);
		pthread_mutex_unlock(&lock);
		free(malloc(10));
	}
	return arg;
}

static __attribute__((noinline)) char *get(int i)
{
	char *p = malloc(100);
	pthread_mutex_lock(&lock);
	p[0] = (char)i;
	pthread_mutex_unlock(&lock);
	return p;
}

static __attribute__((noinline)) long ask(long number)
{
	long result;
	__asm__ volatile("syscall\n\t"
			 "behind: .globl behind\n\t"
			 "mov %%eax, %%edx\n\t"
			 "mov %%edx, %%eax"
			 : "=a"(result)
			 : "a"(number)
			 : "rcx", "rdx", "r11", "memory");
	return result;
}

int main(void)
{
	pthread_t t[3];
	int wrong = 0;
	for (int i = 0; i < 3; i++)
		pthread_create(&t[i], NULL, works, NULL);
	while (__atomic_load_n(&busy, __ATOMIC_SEQ_CST) < 3)
		usleep(1000);
	for (int i = 0; i < 5; i++) {
		char *p = get(i);
		if (p[0] != i)
			wrong++;
		free(p);
		if (ask(SYS_getppid) != getppid())
			wrong++;
	}
	going = 0;
	for (int i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
	printf("wrong %d\n", wrong);
	return 0;
}
