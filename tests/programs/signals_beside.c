// While the first thread waits for the second one, that one gets a signal.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static volatile sig_atomic_t number;

static void handler(int signal)
{
	number = signal;
}

static void *work(void *unused)
{
	for (int i = 0; i < 20; i++)
		getppid();
	raise(SIGUSR1);
	for (int i = 0; i < 20; i++)
		getppid();
	return unused;
}

int main(void)
{
	pthread_t thread;
	signal(SIGUSR1, handler);
	pthread_create(&thread, NULL, work, NULL);
	pthread_join(thread, NULL);
	printf("%d\n", (int)number);
	return 0;
}
