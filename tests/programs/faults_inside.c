// Faults, and a wait for ever, inside of library functions; what is in front of them is in the same segment.
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static volatile int number;
static void *volatile null, *volatile wild = (void *)16;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void inner(const char *what)
{
	number = 1;
	if (!strcmp(what, "lock"))
		pthread_mutex_lock(null);
	else if (!strcmp(what, "unlock"))
		pthread_mutex_unlock(null);
	else if (!strcmp(what, "spin"))
		pthread_spin_lock(null);
	else if (!strcmp(what, "post"))
		sem_post(null);
	else if (!strcmp(what, "memcpy"))
		memcpy(null, what, 3 + number);
	else if (!strcmp(what, "fclose"))
		fclose(wild);
	else if (!strcmp(what, "free"))
		free(wild);
	else
		pthread_mutex_lock(&mutex);
}

int main(int argc, char **argv)
{
	pthread_mutex_lock(&mutex);
	inner(argc > 1 ? argv[1] : "waits");
	return 0;
}
