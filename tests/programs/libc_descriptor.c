// Threads that meet at a lock in another one's descriptor, whose order nobody needs to know: what the C library leaves on their stacks where it
// waits for it is under later frames, and is printed here.
// Natively different: who waits leaves the frame of the function that waits.
#include "below.h"
#include "sync.h"

#include <semaphore.h>
#include <signal.h>

#define THREADS 4
#define ROUNDS 200

static pthread_t asked;
static sem_t over;

static void *stay(void *arg)
{
	CHECK(!sem_wait(&over));
	return arg;
}

static void *ask(void *arg)
{
	unsigned long sum = 0;
	for (int i = 0; i < ROUNDS; i++) {
		CHECK(!pthread_kill(asked, 0));
		sum = sum * 31 + below();
	}
	*(unsigned long *)arg = sum;
	return NULL;
}

int main(void)
{
	pthread_t threads[THREADS];
	unsigned long sums[THREADS];
	CHECK(!sem_init(&over, 0, 0));
	CHECK(!pthread_create(&asked, NULL, stay, NULL));
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&threads[i], NULL, ask, &sums[i]));
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_join(threads[i], NULL));
	CHECK(!sem_post(&over));
	CHECK(!pthread_join(asked, NULL));
	for (int i = 0; i < THREADS; i++)
		printf("%lx\n", sums[i]);
	return 0;
}
