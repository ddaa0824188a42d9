// Threads are cancelled in system calls: while they read, sleep or poll, and between such calls.
#include "sync.h"

#include <poll.h>
#include <pthread.h>
#include <unistd.h>

static int ends[2];
static int rounds[4];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void note(void *name)
{
	pthread_mutex_lock(&mutex);
	mark(*(char *)name);
	pthread_mutex_unlock(&mutex);
}

static void *work(void *name)
{
	int me = *(char *)name - 'a';
	pthread_cleanup_push(note, name);
	for (;;) {
		char c;
		struct timespec nap = {0, 20000};
		struct pollfd one = {.fd = ends[0], .events = POLLIN};
		rounds[me]++;
		if (me == 0)
			CHECK(read(ends[0], &c, 1) == 1);
		else if (me == 1)
			nanosleep(&nap, NULL);
		else if (me == 2)
			poll(&one, 1, 1);
		else
			pause();
	}
	pthread_cleanup_pop(1);
	return NULL;
}

int main(void)
{
	pthread_t threads[4];
	int cancelled = 0;
	CHECK(!pipe(ends));
	for (int i = 0; i < 4; i++)
		CHECK(!pthread_create(&threads[i], NULL, work, &"abcd"[i]));
	for (int i = 0; i < 30; i++) {
		work_a_little();
		CHECK(write(ends[1], "x", 1) == 1);
	}
	for (int i = 3; i >= 0; i--) {
		CHECK(!pthread_cancel(threads[i]));
		work_a_little();
	}
	for (int i = 0; i < 4; i++) {
		void *result;
		CHECK(!pthread_join(threads[i], &result));
		cancelled += result == PTHREAD_CANCELED;
	}
	printf("%s %d %d %d %d cancelled %d\n", line, rounds[0], rounds[1], rounds[2], rounds[3], cancelled);
	return 0;
}
