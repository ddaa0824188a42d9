// What a debugger meets, one scene for each name: `here` marks moments, `value` changes. What natively differs is whose
// turn it is, what the kernel writes and when signals come.
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

volatile long value;
static __thread volatile long mine;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER, other = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t all;
static jmp_buf home;
static int *volatile nowhere;

__attribute__((noinline)) void here(long number)
{
	value += number;
	__asm__ volatile("" ::: "memory");
}

static int plain(void)
{
	for (long i = 1; i <= 5; i++)
		here(i);
	return 3;
}

static void *count(void *arg)
{
	for (int i = 0; i < 4; i++) {
		pthread_mutex_lock(&lock);
		here((long)arg);
		mine++;
		pthread_mutex_unlock(&lock);
	}
	value += mine;
	return NULL;
}

static int in_threads(void *(*work)(void *))
{
	pthread_t thread[3];
	for (long i = 0; i < 3; i++)
		pthread_create(&thread[i], NULL, work, (void *)(i + 1));
	for (int i = 0; i < 3; i++)
		pthread_join(thread[i], NULL);
	return 0;
}

static int threads(void)
{
	return in_threads(count);
}

static int crash(void)
{
	plain();
	return *nowhere;
}

static void *crash_third(void *arg)
{
	count(arg);
	if ((long)arg == 3)
		abort();
	return NULL;
}

static int crash_in_thread(void)
{
	return in_threads(crash_third);
}

static void *grab(void *arg)
{
	pthread_mutex_t *first = arg ? &lock : &other, *second = arg ? &other : &lock;
	pthread_mutex_lock(first);
	here(1);
	pthread_barrier_wait(&all);
	usleep(2000);
	pthread_mutex_lock(second);
	here(100);
	pthread_mutex_unlock(second);
	pthread_mutex_unlock(first);
	return NULL;
}

static int deadlock(void)
{
	pthread_t one, two;
	struct timespec limit;
	pthread_barrier_init(&all, NULL, 3);
	pthread_create(&one, NULL, grab, NULL);
	pthread_create(&two, NULL, grab, &one);
	pthread_barrier_wait(&all);
	clock_gettime(CLOCK_REALTIME, &limit);
	limit.tv_nsec += 50000000;
	limit.tv_sec += limit.tv_nsec / 1000000000;
	limit.tv_nsec %= 1000000000;
	int stuck = pthread_timedjoin_np(one, NULL, &limit) || pthread_timedjoin_np(two, NULL, &limit);
	here(1000);
	_exit(stuck ? 4 : 0);
}

static void handle(int signal)
{
	here(signal);
}

static int signals(void)
{
	signal(SIGUSR1, handle);
	for (int i = 0; i < 3; i++) {
		raise(SIGUSR1);
		here(1000);
	}
	return 0;
}

static int from_kernel(void)
{
	int ends[2];
	long told = 7;
	if (pipe(ends))
		return 1;
	for (int i = 0; i < 3; i++) {
		told *= 3;
		if (write(ends[1], &told, sizeof told) != sizeof told || read(ends[0], (void *)&value, sizeof value) < 0)
			return 1;
		here(1);
		if (getrandom((void *)&value, 4, 0) != 4)
			return 1;
		here(2);
	}
	return 0;
}

__attribute__((noinline)) static long deep(long n)
{
	here(n);
	if (n == 0)
		return 1;
	long below = deep(n - 1);
	return below + n;
}

static int recursion(void)
{
	return (int)deep(6);
}

__attribute__((noinline)) static int last(long n)
{
	here(n);
	return (int)n;
}

__attribute__((noinline)) static int tail(long n)
{
	return n > 4 ? last(n) : tail(n + 1);
}

static int tail_calls(void)
{
	return tail(0) + tail(3) - 10;
}

__attribute__((noinline)) static void leap(long n)
{
	here(n);
	longjmp(home, (int)n);
}

static int jumps(void)
{
	int came = setjmp(home);
	if (came < 4)
		leap(came + 1);
	return came;
}

static int strings(void)
{
	char from[200], to[200];
	for (int i = 0; i < 3; i++) {
		memset(from, 'a' + i, sizeof from);
		void *source = from, *target = to;
		size_t count = sizeof to;
		__asm__ volatile("rep movsb" : "+S"(source), "+D"(target), "+c"(count) : : "memory");
		here(to[100 + i]);
	}
	return 0;
}

int main(int argc, char **argv)
{
	static const struct { const char *name; int (*run)(void); } scenes[] = {
		{"plain", plain}, {"threads", threads}, {"crash", crash}, {"crash_in_thread", crash_in_thread},
		{"deadlock", deadlock}, {"signals", signals}, {"from_kernel", from_kernel}, {"recursion", recursion},
		{"tail_calls", tail_calls}, {"jumps", jumps}, {"strings", strings},
	};
	for (size_t i = 0; argc > 1 && i < sizeof scenes / sizeof *scenes; i++)
		if (strcmp(argv[1], scenes[i].name) == 0)
			return scenes[i].run();
	return 99;
}
