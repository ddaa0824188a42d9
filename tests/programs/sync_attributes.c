// Threads with attributes: sizes, a stack of their own, names; where their variables are.
#include "sync.h"

#include <pthread.h>
#include <sys/mman.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local int local;

static void *work(void *arg)
{
	pthread_attr_t attr;
	void *low;
	size_t size, guard;
	char deep[8192];
	memset(deep, (int)(long)arg, sizeof deep);
	pthread_mutex_lock(&mutex);
	CHECK(!pthread_getattr_np(pthread_self(), &attr));
	CHECK(!pthread_attr_getstack(&attr, &low, &size));
	CHECK(!pthread_attr_getguardsize(&attr, &guard));
	CHECK(guard == (arg == (void *)3 ? 0 : (long)arg % 4 == 2 ? 65536 : 4096));
	CHECK((char *)low <= deep && deep + sizeof deep <= (char *)low + size);
	printf("%ld: %zu bytes, local %p, stack %p\n", (long)arg, size, (void *)&local, (void *)deep);
	pthread_mutex_unlock(&mutex);
	pthread_attr_destroy(&attr);
	return NULL;
}

int main(void)
{
	pthread_t threads[8];
	size_t size = 256 * 1024;
	void *own = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (long i = 0; i < 8; i++) {
		pthread_attr_t attr;
		pthread_attr_init(&attr);
		if (i % 4 == 1)
			pthread_attr_setstacksize(&attr, 128 * 1024);
		if (i % 4 == 2)
			pthread_attr_setguardsize(&attr, 64 * 1024);
		if (i == 3)
			pthread_attr_setstack(&attr, own, size);
		CHECK(!pthread_create(&threads[i], i % 4 ? &attr : NULL, work, (void *)i));
		pthread_attr_destroy(&attr);
	}
	for (int i = 0; i < 8; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
