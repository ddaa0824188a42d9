// Threads that wait: for each other for ever, or for something that comes after a while. The argument says which.
#include "sync.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#define WHILE 2500 // milliseconds

static pthread_mutex_t a = PTHREAD_MUTEX_INITIALIZER, b = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t both = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t half, three;
static sem_t sem;

static struct timespec later(clockid_t clock)
{
	struct timespec time;
	clock_gettime(clock, &time);
	time.tv_sec += WHILE / 1000;
	time.tv_nsec += WHILE % 1000 * 1000000;
	time.tv_sec += time.tv_nsec / 1000000000;
	time.tv_nsec %= 1000000000;
	return time;
}

static void *a_then_b(void *arg)
{
	pthread_mutex_lock(&a);
	pthread_barrier_wait(&half);
	pthread_mutex_lock(&b);
	return arg;
}

static void *b_then_a(void *arg)
{
	pthread_mutex_lock(&b);
	pthread_barrier_wait(&half);
	pthread_mutex_lock(&a);
	return arg;
}

static void *b_then_a_for_a_while(void *arg)
{
	struct timespec end = later(CLOCK_REALTIME);
	pthread_mutex_lock(&b);
	pthread_barrier_wait(&half);
	CHECK(pthread_mutex_timedlock(&a, &end) == ETIMEDOUT);
	pthread_mutex_unlock(&b);
	return arg;
}

static void *a_then_b_then_none(void *arg)
{
	a_then_b(arg);
	pthread_mutex_unlock(&b);
	pthread_mutex_unlock(&a);
	return arg;
}

static void *read_then_a(void *arg)
{
	pthread_rwlock_rdlock(&both);
	pthread_barrier_wait(&half);
	pthread_mutex_lock(&a);
	return arg;
}

static void *a_then_write(void *arg)
{
	pthread_mutex_lock(&a);
	pthread_barrier_wait(&half);
	pthread_rwlock_wrlock(&both);
	return arg;
}

static void *wait_for_ever(void *arg)
{
	pthread_mutex_lock(&a);
	pthread_cond_wait(&never, &a);
	return arg;
}

static void *keep_it(void *arg)
{
	pthread_mutex_lock(&a);
	return arg;
}

static void *at_the_barrier(void *arg)
{
	pthread_barrier_wait(&three);
	return arg;
}

static void two(pthread_t threads[2], void *(*first)(void *), void *(*second)(void *))
{
	CHECK(!pthread_create(&threads[0], NULL, first, NULL));
	CHECK(!pthread_create(&threads[1], NULL, second, NULL));
}

static void join(const pthread_t threads[2])
{
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
}

static void post(int number)
{
	(void)number;
	sem_post(&sem);
}

// ---------------------------------------------------------------- for ever
static void circle(void)
{
	pthread_t threads[2];
	two(threads, a_then_b, b_then_a);
	join(threads);
}

static void beside_sleep(void)
{
	pthread_t threads[2];
	two(threads, a_then_b, b_then_a);
	sleep(600);
}

static void beside_work(void)
{
	pthread_t threads[2];
	two(threads, a_then_b, b_then_a);
	for (int i = 0; i < 60000; i++)
		usleep(10000);
}

static void readers(void)
{
	pthread_t threads[2];
	two(threads, read_then_a, a_then_write);
	join(threads);
}

static void own(void)
{
	pthread_mutex_lock(&a);
	pthread_mutex_lock(&a);
}

static void kept(void)
{
	pthread_t thread;
	CHECK(!pthread_create(&thread, NULL, keep_it, NULL));
	pthread_join(thread, NULL);
	pthread_mutex_lock(&a);
}

static void barrier(void)
{
	pthread_t threads[2];
	two(threads, at_the_barrier, at_the_barrier);
	join(threads);
}

static void nobody(void)
{
	sem_wait(&sem);
}

// ---------------------------------------------------------------- for a while
static void sleeps(void)
{
	pthread_t thread;
	CHECK(!pthread_create(&thread, NULL, wait_for_ever, NULL));
	usleep(WHILE * 1000);
}

static void limit(void)
{
	struct timespec end = later(CLOCK_REALTIME);
	pthread_t thread;
	CHECK(!pthread_create(&thread, NULL, wait_for_ever, NULL));
	CHECK(sem_timedwait(&sem, &end) == -1 && errno == ETIMEDOUT);
}

static void limit_in_circle(void)
{
	pthread_t threads[2];
	two(threads, a_then_b_then_none, b_then_a_for_a_while);
	join(threads);
}

static void look(void)
{
	pthread_t thread;
	CHECK(!pthread_create(&thread, NULL, wait_for_ever, NULL));
	poll(NULL, 0, WHILE);
}

static void child(void)
{
	int ends[2];
	char byte;
	CHECK(!pipe(ends));
	if (fork() == 0) {
		usleep(WHILE * 1000);
		_exit(write(ends[1], "x", 1) != 1);
	}
	CHECK(read(ends[0], &byte, 1) == 1);
}

static void alarmed(void)
{
	signal(SIGALRM, post);
	alarm(WHILE / 1000 + 1);
	while (sem_wait(&sem))
		;
}

static void timer(void)
{
	timer_t made;
	struct itimerspec in = {.it_value = {WHILE / 1000, WHILE % 1000 * 1000000}};
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
	signal(SIGUSR1, post);
	CHECK(!timer_create(CLOCK_MONOTONIC, &event, &made));
	CHECK(!timer_settime(made, 0, &in, NULL));
	while (sem_wait(&sem))
		;
}

static const struct { const char *name; void (*run)(void); } kinds[] = {
	{"circle", circle}, {"beside_sleep", beside_sleep}, {"beside_work", beside_work}, {"readers", readers}, {"own", own},
	{"kept", kept}, {"barrier", barrier}, {"nobody", nobody},
	{"sleeps", sleeps}, {"limit", limit}, {"limit_in_circle", limit_in_circle}, {"look", look}, {"child", child},
	{"alarmed", alarmed}, {"timer", timer},
};

int main(int argc, char **argv)
{
	CHECK(argc == 2 && !sem_init(&sem, 0, 0));
	CHECK(!pthread_barrier_init(&half, NULL, 2) && !pthread_barrier_init(&three, NULL, 3));
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		if (!strcmp(kinds[i].name, argv[1])) {
			kinds[i].run();
			puts("done");
			return 0;
		}
	}
	return 2;
}
