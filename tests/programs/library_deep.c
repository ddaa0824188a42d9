// A library that was loaded with RTLD_DEEPBIND frees what the program has allocated, and locks what it locks.
#define _GNU_SOURCE
#include "sync.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char *given;
static long mine, theirs;

static void *work(void *arg)
{
	char (*exchange)(pthread_mutex_t *, char **) = (char (*)(pthread_mutex_t *, char **))arg;
	for (int i = 0; i < 20000; i++)
		theirs += exchange(&mutex, &given);
	return NULL;
}

int main(int argc, char **argv)
{
	void *library = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_DEEPBIND) : NULL;
	void *exchange = library ? dlsym(library, "exchange") : NULL;
	pthread_t thread;
	CHECK(exchange);
	given = calloc(1, 40);
	CHECK(!pthread_create(&thread, NULL, work, exchange));
	for (int i = 0; i < 20000; i++) {
		pthread_mutex_lock(&mutex);
		free(given);
		given = malloc(40);
		*given = (char)(i % 7);
		mine += *given;
		pthread_mutex_unlock(&mutex);
	}
	pthread_join(thread, NULL);
	free(given);
	printf("%ld %ld\n", mine, theirs);
	return 0;
}
