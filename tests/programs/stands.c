// Threads that wait in every way, and threads that are hardly ever in the program's own code, while main comes to `here` so many times.
#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER, around = PTHREAD_MUTEX_INITIALIZER, shared = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static sem_t empty;
static int pipes[2], self[2], word;
static volatile int computing = 1;
static volatile long turns, wrong;
static int begun;
static FILE *nowhere;

#define BEGUN __atomic_fetch_add(&begun, 1, __ATOMIC_SEQ_CST)

static void *reads(void *arg)
{
	char c;
	BEGUN;
	return read(pipes[0], &c, 1) ? arg : arg;
}

static void *sleeps(void *arg)
{
	struct timespec t = {3000, 0};
	BEGUN;
	nanosleep(&t, NULL);
	return arg;
}

static void *locks(void *arg)
{
	BEGUN;
	pthread_mutex_lock(&held);
	return arg;
}

static void *waits(void *arg)
{
	BEGUN;
	pthread_mutex_lock(&around);
	pthread_cond_wait(&never, &around);
	return arg;
}

static void *sems(void *arg)
{
	BEGUN;
	sem_wait(&empty);
	return arg;
}

static void *futexes(void *arg)
{
	BEGUN;
	syscall(SYS_futex, &word, FUTEX_WAIT, 0, NULL, NULL, 0);
	return arg;
}

static void *computes(void *arg)
{
	BEGUN;
	while (computing)
		turns++;
	return arg;
}

static void *asks(void *arg)
{
	BEGUN;
	pid_t parent = getppid();
	while (computing)
		if (getppid() != parent)
			wrong++;
	return arg;
}

static void *shares(void *arg)
{
	BEGUN;
	static long sum;
	for (long before; computing;) {
		pthread_mutex_lock(&shared);
		before = sum++;
		if (sum != before + 1)
			wrong++;
		pthread_mutex_unlock(&shared);
	}
	return arg;
}

static void *allocates(void *arg)
{
	BEGUN;
	while (computing) {
		long *p = malloc(100);
		*p = (long)&p;
		if (*p != (long)&p)
			wrong++;
		free(p);
	}
	return arg;
}

static void *writes(void *arg)
{
	BEGUN;
	for (char c = 0, back = 0; computing; c++)
		if (write(self[1], &c, 1) != 1 || read(self[0], &back, 1) != 1 || back != c)
			wrong++;
	return arg;
}

static void *traps(void *arg)
{
	BEGUN;
	for (long pid = getpid(); computing;)
		if (syscall(SYS_getpid) != pid)
			wrong++;
	return arg;
}

static void *prints(void *arg)
{
	BEGUN;
	while (computing)
		if (putc('x', nowhere) != 'x')
			wrong++;
	return arg;
}

static void *is_born(void *arg)
{
	return arg;
}

static void *bears(void *arg)
{
	void *same;
	BEGUN;
	for (pthread_t t; computing;)
		if (pthread_create(&t, NULL, is_born, arg) || pthread_join(t, &same) || same != arg)
			wrong++;
	return arg;
}

static __attribute__((noinline)) void here(int i)
{
	__asm__ volatile("nop" ::"r"(i));
}

int main(int argc, char **argv)
{
	int times = argc > 1 ? atoi(argv[1]) : 20;
	void *(*const waiting[])(void *) = {reads, sleeps, locks, waits, sems, futexes};
	void *(*const busy[])(void *) = {computes, asks, shares, shares, allocates, writes, traps, prints, prints, bears};
	enum { WAITING = sizeof waiting / sizeof *waiting, BUSY = sizeof busy / sizeof *busy };
	pthread_t t[BUSY], other;
	nowhere = fopen("/dev/null", "w");
	if (!nowhere || pipe(pipes) || pipe(self) || sem_init(&empty, 0, 0))
		return 1;
	pthread_mutex_lock(&held);
	for (int i = 0; i < WAITING; i++)
		pthread_create(&other, NULL, waiting[i], NULL);
	for (int i = 0; i < BUSY; i++)
		pthread_create(&t[i], NULL, busy[i], NULL);
	while (__atomic_load_n(&begun, __ATOMIC_SEQ_CST) < WAITING + BUSY)
		usleep(1000);
	for (int i = 0; i < times; i++) {
		usleep(1000);
		here(i);
	}
	computing = 0;
	for (int i = 0; i < BUSY; i++)
		pthread_join(t[i], NULL);
	printf("wrong %ld\n", wrong);
	fflush(stdout);
	_exit(0);
}
