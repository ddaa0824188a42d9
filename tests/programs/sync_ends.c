// The process ends while others run: by exit, _exit, quick_exit, abort or a crash in a thread.
#include "sync.h"

#include <pthread.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static unsigned long turns[3], all;
static const char *how;

static void end(void)
{
	char text[100];
	int n = snprintf(text, sizeof text, "%lu %lu %lu\n", turns[0], turns[1], turns[2]);
	CHECK(write(1, text, n) == n);
	if (!strcmp(how, "exit"))
		exit(5);
	if (!strcmp(how, "_exit"))
		_exit(6);
	if (!strcmp(how, "quick_exit"))
		quick_exit(7);
	if (!strcmp(how, "abort"))
		abort();
	*(volatile int *)8 = 1;
}

static void *work(void *arg)
{
	for (;;) {
		pthread_mutex_lock(&mutex);
		turns[(long)arg]++;
		if (++all == 300) {
			if (!strcmp(how, "exit") || !strcmp(how, "quick_exit"))
				pthread_cond_signal(&cond);
			else
				end();
		}
		pthread_mutex_unlock(&mutex);
		work_a_little();
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[3];
	how = argc > 1 ? argv[1] : "exit";
	for (long i = 0; i < 3; i++)
		CHECK(!pthread_create(&threads[i], NULL, work, (void *)i));
	pthread_mutex_lock(&mutex);
	while (all < 300)
		pthread_cond_wait(&cond, &mutex);
	end();
	return 0;
}
