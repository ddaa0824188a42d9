// Threads that name themselves: `called` is what each believes to be called. One says nothing, and has the name of who made it.
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

#define ROUNDS 30
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int rounds;
static __thread char called[16];

static void call_me(const char *name)
{
	prctl(PR_SET_NAME, name);
	strncpy(called, name, 15);
}

static void *work(void *name)
{
	if (name)
		call_me(name);
	for (int i = 0; i < ROUNDS; i++) {
		pthread_mutex_lock(&lock);
		rounds++;
		if (name && i == ROUNDS / 2) {
			char again[32];
			snprintf(again, sizeof again, "%s, much older by now", (char *)name);
			call_me(again);
		}
		pthread_mutex_unlock(&lock);
	}
	return NULL;
}

int main(void)
{
	static char *names[] = { "reader", "writer", NULL };
	pthread_t thread[3];
	call_me("chief");
	for (int i = 0; i < 3; i++)
		pthread_create(&thread[i], NULL, work, names[i]);
	for (int i = 0; i < 3; i++)
		pthread_join(thread[i], NULL);
	char own[16];
	prctl(PR_GET_NAME, own);
	printf("%s %s %d\n", called, own, rounds);
	return strcmp(called, own) != 0;
}
