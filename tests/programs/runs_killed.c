// Two threads that take mutexes without end and without any system call; each says once that it has begun.
#include <pthread.h>
#include <unistd.h>

static pthread_mutex_t own[2] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER}, common = PTHREAD_MUTEX_INITIALIZER;
static volatile unsigned long total;

static void *work(void *arg)
{
	long me = (long)arg;
	if (write(1, "begun\n", 6) != 6)
		return NULL;
	for (unsigned long i = 0;; i++) {
		pthread_mutex_t *lock = i % 64 ? &own[me] : &common;
		pthread_mutex_lock(lock);
		if (lock == &common)
			total = total * 31 + me;
		pthread_mutex_unlock(lock);
	}
}

int main(void)
{
	pthread_t other;
	pthread_create(&other, NULL, work, (void *)1);
	work((void *)0);
	return 0;
}
