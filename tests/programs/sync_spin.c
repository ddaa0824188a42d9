// A spinlock, taken and tried.
#include "sync.h"

#include <pthread.h>

static pthread_spinlock_t lock;
static int missed[2];

static void *work(void *arg)
{
	long me = (long)arg;
	for (int i = 0; i < 60; i++) {
		if (i % 2 && pthread_spin_trylock(&lock)) {
			missed[me]++;
			continue;
		}
		if (i % 2 == 0)
			pthread_spin_lock(&lock);
		mark("ab"[me]);
		for (volatile int n = 0; n < 200; n++)
			;
		pthread_spin_unlock(&lock);
		work_a_little();
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[2];
	pthread_spin_init(&lock, PTHREAD_PROCESS_PRIVATE);
	for (long i = 0; i < 2; i++)
		CHECK(!pthread_create(&threads[i], NULL, work, (void *)i));
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	printf("%s %d %d\n", line, missed[0], missed[1]);
	return 0;
}
