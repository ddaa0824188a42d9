// A thread that waits for another one, which comes by the same place again and again meanwhile.
#include <pthread.h>
#include <semaphore.h>

static sem_t go, done;
static volatile long passes;

__attribute__((noinline)) static void pass(long n)
{
	passes += n;
}

static void *other(void *arg)
{
	sem_wait(&go);
	for (long i = 0; i < 5; i++)
		pass(i);
	sem_post(&done);
	return arg;
}

int main(void)
{
	pthread_t thread;
	sem_init(&go, 0, 0);
	sem_init(&done, 0, 0);
	pthread_create(&thread, NULL, other, NULL);
	sem_post(&go), sem_wait(&done); // it comes by while a step over this line waits
	passes++;
	pthread_join(thread, NULL);
	return passes != 11;
}
