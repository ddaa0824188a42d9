// What allocating costs: threads that keep a shelf of blocks and replace them at random, or hand them to each other.
//
// heap WHAT THREADS ROUNDS prints nanoseconds a round and the peak of resident memory in KiB.
// private: blocks of 16 bytes to 2 KiB, freed by their thread; mixed: the same and up to 256 KiB; handed: every shelf goes to
// the next thread again and again; pair: a producer and a consumer, ROUNDS blocks; churn: threads that come and go.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SHELF = 10000, MOST = 16, QUEUE = 64, HANDED = 20, BUNCH = 50, LIFE = 10000 };

static char *shelves[MOST][SHELF];
static pthread_barrier_t barrier;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static char *queue[QUEUE][BUNCH];
static long rounds, head, tail;
static int threads, mixed, handed;

static uint32_t draw(uint32_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 17;
	*x ^= *x << 5;
	return *x;
}

static size_t some_size(uint32_t *x)
{
	uint32_t r = draw(x);
	if (mixed && r % 64 == 0)
		return 1 + draw(x) % (256 << 10);
	return 16 + draw(x) % (r % 8 ? 256 : 2048);
}

static char *block(uint32_t *x)
{
	size_t size = some_size(x);
	char *p = malloc(size);
	for (size_t i = 0; i < size; i += 4096)
		p[i] = 1;
	p[size - 1] = 1;
	return p;
}

static void replace(char **shelf, long count, uint32_t *x)
{
	for (long i = 0; i < count; i++) {
		unsigned n = draw(x) % SHELF;
		free(shelf[n]);
		shelf[n] = block(x);
	}
}

static void *work(void *arg)
{
	int me = (int)(intptr_t)arg;
	uint32_t x = 12345 + me;
	int times = handed ? HANDED : 1;
	for (int i = 0; i < times; i++) {
		replace(shelves[(me + i) % threads], rounds / times, &x);
		pthread_barrier_wait(&barrier);
	}
	return NULL;
}

static void *consume(void *arg)
{
	for (long i = 0; i < rounds; i += BUNCH) {
		pthread_mutex_lock(&lock);
		while (head == tail)
			pthread_cond_wait(&changed, &lock);
		pthread_mutex_unlock(&lock);
		for (int n = 0; n < BUNCH; n++)
			free(queue[tail % QUEUE][n]);
		pthread_mutex_lock(&lock);
		if (head - tail++ == QUEUE)
			pthread_cond_signal(&changed);
		pthread_mutex_unlock(&lock);
	}
	return arg;
}

static void *produce(void *arg)
{
	uint32_t x = 99;
	for (long i = 0; i < rounds; i += BUNCH) {
		pthread_mutex_lock(&lock);
		while (head - tail == QUEUE)
			pthread_cond_wait(&changed, &lock);
		pthread_mutex_unlock(&lock);
		for (int n = 0; n < BUNCH; n++)
			queue[head % QUEUE][n] = block(&x);
		pthread_mutex_lock(&lock);
		if (head++ == tail)
			pthread_cond_signal(&changed);
		pthread_mutex_unlock(&lock);
	}
	return arg;
}

static void *come_and_go(void *arg)
{
	uint32_t x = 7 + (uint32_t)(intptr_t)arg;
	char *own[200] = {0};
	for (int i = 0; i < LIFE; i++) {
		unsigned n = draw(&x) % 200;
		free(own[n]);
		own[n] = block(&x);
	}
	for (int i = 0; i < 200; i++)
		free(own[i]);
	return NULL;
}

static void run(int count, void *(*const each)(void *), void *(*const other)(void *))
{
	pthread_t ids[MOST];
	for (intptr_t i = 0; i < count; i++)
		pthread_create(&ids[i], NULL, i && other ? other : each, (void *)i);
	for (int i = 0; i < count; i++)
		pthread_join(ids[i], NULL);
}

// Not getrusage: that also counts who started the program.
static long peak(void)
{
	char line[200];
	long found = 0;
	FILE *file = fopen("/proc/self/status", "r");
	while (file && !found && fgets(line, sizeof line, file))
		sscanf(line, "VmHWM: %ld", &found);
	return found;
}

int main(int argc, char **argv)
{
	struct timespec from, to;
	if (argc != 4 || (threads = atoi(argv[2])) > MOST)
		return 2;
	rounds = atol(argv[3]);
	mixed = !strcmp(argv[1], "mixed") || !strcmp(argv[1], "pair");
	handed = !strcmp(argv[1], "handed");
	pthread_barrier_init(&barrier, NULL, threads);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
	if (!strcmp(argv[1], "pair"))
		run(2, produce, consume);
	else if (!strcmp(argv[1], "churn"))
		for (long i = 0; i < rounds; i += (long)LIFE * threads)
			run(threads, come_and_go, NULL);
	else
		run(threads, work, NULL);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
	double ns = (to.tv_sec - from.tv_sec) * 1e9 + (to.tv_nsec - from.tv_nsec);
	long total = !strcmp(argv[1], "pair") || !strcmp(argv[1], "churn") ? rounds : rounds * threads;
	printf("%.1f %ld\n", ns / total, peak());
	return 0;
}
