// Three threads change lists that the C library keeps for the whole process, the environment and what is done at exit: in
// which order it has their entries.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 3
#define ENTRIES 60

extern char **environ;

static unsigned long at_end;

static void note(int status, void *arg)
{
	(void)status;
	at_end = at_end * 31 + (unsigned long)arg;
}

static void show(void)
{
	printf("at exit: %016lx\n", at_end);
}

static pthread_barrier_t together;

static void *add(void *arg)
{
	char name[32];
	pthread_barrier_wait(&together);
	for (long i = 0; i < ENTRIES; i++) {
		long number = (long)arg * 1000 + i;
		snprintf(name, sizeof name, "ENTRY_%ld", number);
		setenv(name, "1", 1);
		if (i % 3 == 0)
			unsetenv(name);
		on_exit(note, (void *)number);
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[THREADS];
	unsigned long sum = 0;
	atexit(show);
	pthread_barrier_init(&together, NULL, THREADS);
	for (long i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, add, (void *)i);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (char **e = environ; *e; e++)
		for (const char *p = strncmp(*e, "ENTRY_", 6) ? "" : *e; *p; p++)
			sum = sum * 31 + (unsigned char)*p;
	printf("environment: %016lx\n", sum);
	return 0;
}
