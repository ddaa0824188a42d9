// Readers and writers of one lock, close behind each other: writers come while the last reader leaves. What everybody has read
// depends on the order.
#include "sync.h"

#define THREADS 4
#define ROUNDS 30000

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static unsigned long number;

static void *work(void *arg)
{
	unsigned long me = (unsigned long)arg, seen = me;
	for (unsigned long i = 0; i < ROUNDS; i++) {
		if ((i + me) % 5 == 0) {
			pthread_rwlock_wrlock(&lock);
			number = number * 31 + me;
		} else {
			pthread_rwlock_rdlock(&lock);
			seen = seen * 7 + number;
		}
		pthread_rwlock_unlock(&lock);
	}
	return (void *)seen;
}

int main(void)
{
	print_all(THREADS, work);
	printf("%lx\n", number);
	return 0;
}
