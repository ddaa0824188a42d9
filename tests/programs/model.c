// Something of everything that has moments: a signal handler, siglongjmp, a `rep`, recursion, a child thread, code that is
// made at run time and changed. Natively different: the process's id.
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int rounds, inside, caught, jumped;
char text[16];
static sigjmp_buf back;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void handler(int sig)
{
	caught++;
	if (sig == SIGUSR2)
		siglongjmp(back, 1);
}

__attribute__((noinline)) int depth(int n)
{
	inside = n;
	return n ? 1 + depth(n - 1) : 0;
}

static void *work(void *arg)
{
	for (int i = 0; i < 6; i++) {
		pthread_mutex_lock(&mutex);
		rounds += depth(3);
		pthread_mutex_unlock(&mutex);
	}
	return arg;
}

// mov $VALUE, %eax; ret
static int made(unsigned char *code, int value)
{
	unsigned char bytes[] = {0xb8, 0, 0, 0, 0, 0xc3};
	memcpy(bytes + 1, &value, sizeof value);
	memcpy(code, bytes, sizeof bytes);
	return ((int (*)(void))code)();
}

int main(void)
{
	pthread_t thread;
	signal(SIGUSR1, handler);
	signal(SIGUSR2, handler);
	for (int i = 0; i < 3; i++) {
		raise(SIGUSR1);
		void *to = text;
		unsigned long length = sizeof text;
		__asm__ volatile("rep stosb" : "+D"(to), "+c"(length) : "a"(i + 1) : "memory");
	}
	if (!sigsetjmp(back, 1))
		raise(SIGUSR2);
	else
		jumped = 1;
	unsigned char *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (int i = 0; i < 4; i++)
		rounds += made(code, i);
	munmap(code, 4096);
	pthread_create(&thread, NULL, work, NULL);
	work(NULL);
	pthread_join(thread, NULL);
	printf("%d %d %d %d %d\n", rounds, inside, caught, jumped, getpid() > 0);
	return 0;
}
