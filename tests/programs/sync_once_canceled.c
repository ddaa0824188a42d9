// The one that does it is cancelled in the middle; another one does it again.
#include "sync.h"

#include <pthread.h>
#include <unistd.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int ends[2], attempts;

static void happen(void)
{
	char c;
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	pthread_mutex_lock(&mutex);
	int first = attempts++ == 0;
	mark('0' + now.tv_nsec % 10);
	pthread_mutex_unlock(&mutex);
	if (first)
		CHECK(write(ends[1], "x", 1) == 1);
	while (first)
		CHECK(read(ends[0] + 100, &c, 1) <= 1);
}

static void *work(void *arg)
{
	pthread_once(&once, happen);
	return arg;
}

int main(void)
{
	pthread_t threads[3];
	void *result;
	char c;
	int never[2];
	CHECK(!pipe(ends) && !pipe(never));
	CHECK(dup2(never[0], ends[0] + 100) >= 0);
	CHECK(!pthread_create(&threads[0], NULL, work, NULL));
	CHECK(read(ends[0], &c, 1) == 1);
	for (int i = 1; i < 3; i++)
		CHECK(!pthread_create(&threads[i], NULL, work, NULL));
	pthread_cancel(threads[0]);
	pthread_join(threads[0], &result);
	for (int i = 1; i < 3; i++)
		pthread_join(threads[i], NULL);
	printf("%s attempts %d cancelled %d\n", line, attempts, result == PTHREAD_CANCELED);
	return 0;
}
