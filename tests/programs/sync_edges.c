// Many small sections under mutexes of two kinds, some of them common to all threads and some a thread's own, taken one
// after the other (or for as many rounds as the argument says): whoever had one last shows in a number that goes from mutex to mutex. Most take no event in a demo.
#include <unistd.h>

#include "sync.h"

#define THREADS 4
#define COMMON 3

static struct { _Alignas(128) pthread_mutex_t lock; unsigned long number; } common[COMMON], own[THREADS];
static pthread_mutex_t twice;
static int rounds = 4000;

static unsigned long step(unsigned long number, unsigned long with)
{
	return (number ^ with) * 0x9e3779b97f4a7c15 + 1;
}

static void *work(void *arg)
{
	long me = (long)arg;
	unsigned long seen = me, drawn = me + 1;
	for (int i = 0; i < rounds; i++) {
		drawn = drawn * 6364136223846793005 + 1442695040888963407;
		for (volatile int wait = drawn >> 33 & 63; wait; wait--)
			;
		long which = (drawn >> 40) % COMMON;
		if (drawn >> 50 & 3) {
			pthread_mutex_lock(&own[me].lock);
			own[me].number = step(own[me].number, seen);
			seen = own[me].number;
			pthread_mutex_unlock(&own[me].lock);
		} else if ((drawn >> 52 & 7) || pthread_mutex_trylock(&common[which].lock)) {
			pthread_mutex_lock(&common[which].lock);
			pthread_mutex_lock(&twice);
			pthread_mutex_lock(&twice);
			seen = common[which].number = step(common[which].number, seen);
			pthread_mutex_unlock(&twice);
			pthread_mutex_unlock(&twice);
			pthread_mutex_unlock(&common[which].lock);
		} else {
			if (!(drawn >> 55 & 7))
				usleep(1); // others come meanwhile
			seen = common[which].number = step(common[which].number, seen + 1);
			pthread_mutex_unlock(&common[which].lock);
		}
	}
	return (void *)seen;
}

int main(int argc, char **argv)
{
	pthread_mutexattr_t recursive;
	rounds = argc > 1 ? atoi(argv[1]) : rounds;
	pthread_mutexattr_init(&recursive);
	pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&twice, &recursive);
	print_all(THREADS, work);
	for (int i = 0; i < COMMON; i++)
		printf("%lx ", common[i].number);
	printf("\n");
	return 0;
}
