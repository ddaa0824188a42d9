// Kernels of the shapes that PARSEC, SPLASH-2 and Phoenix have, written for this: `kernels SHAPE THREADS ROUNDS`.
// Runs in: a program of its own, natively and recorded, driven by bench/kernels.py.
// May call: libc.
// Owns: nothing.
//
// cells      each thread moves what is in its cells, and takes the lock of a neighbour's for each that leaves (fluidanimate, barnes)
// grid       steps over a grid, all threads wait for each other behind each (ocean, streamcluster)
// fork       threads are made for each phase and joined behind it (a loop of OpenMP without a pool, lu)
// pipeline   four stages with bounded queues between them (dedup, ferret, x264)
// tasks      threads take small pieces of work from one queue, some of which make more (radiosity, volrend, raytrace)
// reduce     each thread counts in a part of its own, and adds it to the whole under a lock (Phoenix: histogram, word count)
// rotate     threads hand a phase around by conditions, and compute in between (facesim, bodytrack)
// sweep      a wave front: rows wait for the row above by semaphores (wavefront, lu without barriers)
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 16, CELLS = 4096, SIDE = 256, DEPTH = 32, STAGES = 4, ROWS = 64 };

static long threads, rounds;
static uint64_t sums[MOST][16]; // a line of the cache each
static pthread_barrier_t all;
static pthread_mutex_t common = PTHREAD_MUTEX_INITIALIZER;

static uint32_t step(uint32_t x)
{
	x ^= x << 13;
	x ^= x >> 17;
	return x ^ x << 5;
}

static uint64_t compute(uint64_t x, long steps)
{
	for (long i = 0; i < steps; i++)
		x = x * 6364136223846793005u + 1442695040888963407u;
	return x;
}

// ---------------------------------------------------------------- many small locks
static struct cell { pthread_mutex_t lock; double weight[5]; } cells[CELLS];

static void *run_cells(void *arg)
{
	long me = (long)arg, from = CELLS / threads * me, to = CELLS / threads * (me + 1);
	uint32_t x = 2463534242u + me;
	for (long r = 0; r < rounds; r++)
		for (long i = from; i < to; i++) {
			double moved = 0;
			for (int n = 0; n < 5; n++)
				moved += cells[i].weight[n] = cells[i].weight[n] * 0.999 + n * 0.001;
			x = step(x);
			struct cell *there = &cells[x % 8 ? from + x % (to - from) : x / 8 % CELLS];
			for (int n = 0; n < 120; n++)
				moved = moved * 0.9999 + 0.0001;
			pthread_mutex_lock(&there->lock);
			there->weight[x % 5] += moved * 1e-6;
			pthread_mutex_unlock(&there->lock);
		}
	sums[me][0] = x;
	return NULL;
}

// ---------------------------------------------------------------- barriers
static double grid[2][SIDE][SIDE];

static void *run_grid(void *arg)
{
	long me = (long)arg, from = 1 + (SIDE - 2) * me / threads, to = 1 + (SIDE - 2) * (me + 1) / threads;
	for (long r = 0; r < rounds; r++) {
		double(*a)[SIDE] = grid[r & 1], (*b)[SIDE] = grid[~r & 1];
		for (long i = from; i < to; i++)
			for (int k = 1; k < SIDE - 1; k++)
				b[i][k] = (a[i][k] + a[i - 1][k] + a[i + 1][k] + a[i][k - 1] + a[i][k + 1]) * 0.2;
		pthread_barrier_wait(&all);
	}
	sums[me][0] = (uint64_t)(grid[0][from][7] * 1e6);
	return NULL;
}

// ---------------------------------------------------------------- threads for each phase
static void *run_phase(void *arg)
{
	long me = (long)arg;
	sums[me][0] = compute(sums[me][0], 1600000);
	return NULL;
}

// ---------------------------------------------------------------- queues
static struct queue {
	pthread_mutex_t lock;
	pthread_cond_t some, room;
	uint64_t item[DEPTH];
	int first, count;
} queues[STAGES];

static void put(struct queue *q, uint64_t item)
{
	pthread_mutex_lock(&q->lock);
	while (q->count == DEPTH)
		pthread_cond_wait(&q->room, &q->lock);
	q->item[(q->first + q->count++) % DEPTH] = item;
	pthread_cond_signal(&q->some);
	pthread_mutex_unlock(&q->lock);
}

static uint64_t get(struct queue *q)
{
	pthread_mutex_lock(&q->lock);
	while (!q->count)
		pthread_cond_wait(&q->some, &q->lock);
	uint64_t item = q->item[q->first];
	q->first = (q->first + 1) % DEPTH;
	q->count--;
	pthread_cond_signal(&q->room);
	pthread_mutex_unlock(&q->lock);
	return item;
}

static void *run_stage(void *arg)
{
	long me = (long)arg;
	for (long i = 0; i < rounds; i++) {
		uint64_t item = me ? get(&queues[me - 1]) : (uint64_t)i;
		item = compute(item, 20000);
		if (me < STAGES - 1)
			put(&queues[me], item);
		else
			sums[0][0] += item;
	}
	return NULL;
}

// ---------------------------------------------------------------- one queue of work
static uint32_t todo[1 << 16];
static long waiting, left;

static void *run_tasks(void *arg)
{
	long me = (long)arg;
	for (;;) {
		pthread_mutex_lock(&common);
		if (!left) {
			pthread_mutex_unlock(&common);
			return NULL;
		}
		left--;
		uint32_t task = waiting ? todo[--waiting] : (uint32_t)left * 2654435761u;
		pthread_mutex_unlock(&common);
		sums[me][0] += compute(task, 1000 + task % 2000);
		if (task % 4 == 0) {
			pthread_mutex_lock(&common);
			if (waiting < 1 << 16)
				todo[waiting++] = step(task) | 1;
			pthread_mutex_unlock(&common);
		}
	}
}

// ---------------------------------------------------------------- counting
static uint64_t whole[4096];
static unsigned char text[1 << 20];

static void *run_reduce(void *arg)
{
	static uint64_t own[MOST][4096];
	long me = (long)arg, from = (long)sizeof text / threads * me, to = (long)sizeof text / threads * (me + 1);
	for (long r = 0; r < rounds; r++) {
		memset(own[me], 0, sizeof own[me]);
		for (long i = from; i < to; i++)
			own[me][text[i] * 16 + (text[i ^ 1] & 15)]++;
		for (int k = 0; k < 4096; k += 64) {
			pthread_mutex_lock(&common);
			for (int n = k; n < k + 64; n++)
				whole[n] += own[me][n];
			pthread_mutex_unlock(&common);
		}
	}
	return NULL;
}

// ---------------------------------------------------------------- conditions
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static long phase;

static void *run_rotate(void *arg)
{
	long me = (long)arg;
	for (long r = 0; r < rounds; r++) {
		sums[me][0] = compute(sums[me][0], 60000);
		pthread_mutex_lock(&common);
		while (phase % threads != me)
			pthread_cond_wait(&changed, &common);
		phase++;
		pthread_cond_broadcast(&changed);
		pthread_mutex_unlock(&common);
	}
	return NULL;
}

// ---------------------------------------------------------------- semaphores
static sem_t done[ROWS + 1];

static void *run_sweep(void *arg)
{
	long me = (long)arg;
	for (long r = 0; r < rounds; r++)
		for (long row = me; row < ROWS; row += threads) {
			sums[me][0] = compute(sums[me][0], 3000);
			if (row)
				sem_wait(&done[row - 1]);
			sums[me][0] = compute(sums[me][0], 3000);
			if (row < ROWS - 1)
				sem_post(&done[row]);
		}
	return NULL;
}

static const struct { const char *name; void *(*run)(void *); } shapes[] = {
	{"cells", run_cells}, {"grid", run_grid}, {"fork", run_phase}, {"pipeline", run_stage},
	{"tasks", run_tasks}, {"reduce", run_reduce}, {"rotate", run_rotate}, {"sweep", run_sweep},
};

static void phase_of(void *(*run)(void *), long count)
{
	pthread_t ids[MOST];
	for (long i = 0; i < count; i++)
		pthread_create(&ids[i], NULL, run, (void *)i);
	for (long i = 0; i < count; i++)
		pthread_join(ids[i], NULL);
}

int main(int argc, char **argv)
{
	if (argc != 4)
		return 2;
	threads = atol(argv[2]), rounds = atol(argv[3]);
	if (threads < 1 || threads > MOST)
		return 2;
	for (int i = 0; i < CELLS; i++)
		pthread_mutex_init(&cells[i].lock, NULL);
	for (int i = 0; i < STAGES; i++) {
		pthread_mutex_init(&queues[i].lock, NULL);
		pthread_cond_init(&queues[i].some, NULL);
		pthread_cond_init(&queues[i].room, NULL);
	}
	for (int i = 0; i <= ROWS; i++)
		sem_init(&done[i], 0, 0);
	for (size_t i = 0; i < sizeof text; i++)
		text[i] = (unsigned char)(i * 2654435761u >> 13);
	for (int i = 0; i < SIDE; i++)
		grid[0][0][i] = grid[1][0][i] = i;
	left = rounds;
	pthread_barrier_init(&all, NULL, threads);
	uint64_t total = 0;
	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
		if (strcmp(argv[1], shapes[i].name))
			continue;
		long phases = shapes[i].run == run_phase ? rounds : 1, count = shapes[i].run == run_stage ? STAGES : threads;
		for (long n = 0; n < phases; n++)
			phase_of(shapes[i].run, count);
		for (long n = 0; n < threads; n++)
			total = total * 31 + sums[n][0];
		for (int n = 0; n < 4096; n++)
			total += whole[n] * (n + 1);
		printf("%lx\n", total);
		return 0;
	}
	return 2;
}
