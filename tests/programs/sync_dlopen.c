// Libraries are loaded and closed by threads, in turns: the loader holds its own locks across many system calls.
#include "sync.h"

#include <dlfcn.h>
#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
int loaded;

static void *work(void *name)
{
	for (int i = 0; i < 8; i++) {
		pthread_mutex_lock(&mutex);
		void *library = dlopen(i % 2 ? "libm.so.6" : "libresolv.so.2", RTLD_NOW | RTLD_LOCAL);
		CHECK(library && !dlclose(library));
		mark(*(char *)name);
		loaded++;
		pthread_mutex_unlock(&mutex);
		work_a_little();
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[2];
	for (int i = 0; i < 2; i++)
		CHECK(!pthread_create(&threads[i], NULL, work, &"ab"[i]));
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	printf("%s\n", line);
	return 0;
}
