// What the proxy's tests debug: a main thread and a worker that change a balance, operation by operation.
// Runs in: the processes of tests/rsp/fake.py. May call: pthread_create; everything else would be traced, too.
// Owns: nothing.
#include <pthread.h>

void gr_fake_op(void);

volatile long balance = 100;
volatile long visits;
volatile char wide[64];
__thread volatile long mine = 5;

__attribute__((noinline)) void deposit(long amount)
{
	balance += amount;
	mine += 1;
}

__attribute__((noinline)) void withdraw(long amount)
{
	balance -= amount;
	mine += 100;
}

__attribute__((noinline)) void touch(volatile char *buffer)
{
	visits++;
	buffer[visits % 64]++;
}

static void *worker(void *unused)
{
	for (long round = 1;; round++) {
		gr_fake_op();
		withdraw(round);
		for (int i = 0; i < 3; i++)
			touch(wide);
	}
	return unused;
}

int main(void)
{
	pthread_t thread;
	pthread_create(&thread, 0, worker, 0);
	for (long round = 1;; round++) {
		gr_fake_op();
		deposit(round * 10);
		for (int i = 0; i < 2; i++)
			touch(wide);
	}
}
