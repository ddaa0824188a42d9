// A mutex of the program's own that is held across system calls: who had it when is in no operation.
#include "sync.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

static unsigned lock; // 0 free, 1 taken, 2 taken and waited for
static int timeouts;

static void take(void)
{
	unsigned seen = 0;
	if (__atomic_compare_exchange_n(&lock, &seen, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return;
	while (__atomic_exchange_n(&lock, 2, __ATOMIC_ACQUIRE))
		syscall(SYS_futex, &lock, FUTEX_WAIT_PRIVATE, 2, NULL);
}

static void give(void)
{
	if (__atomic_exchange_n(&lock, 0, __ATOMIC_RELEASE) == 2)
		syscall(SYS_futex, &lock, FUTEX_WAKE_PRIVATE, 1);
}

static void *work(void *arg)
{
	long sum = 0;
	for (int i = 0; i < 30; i++) {
		take();
		sum += i;
		work_a_little();
		give();
		work_a_little();
	}
	*(long *)arg = sum;
	return NULL;
}

int main(void)
{
	pthread_t threads[3];
	long sums[3];
	unsigned never = 5;
	for (int i = 0; i < 3; i++)
		CHECK(!pthread_create(&threads[i], NULL, work, &sums[i]));
	for (int i = 0; i < 20; i++) {
		struct timespec limit = {0, 1000};
		timeouts += syscall(SYS_futex, &never, FUTEX_WAIT_PRIVATE, 5, &limit) < 0 && errno == ETIMEDOUT;
	}
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	printf("%ld %ld %ld timeouts %d %d\n", sums[0], sums[1], sums[2], timeouts, getpid());
	return 0;
}
