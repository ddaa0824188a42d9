// A signal to a thread that waits for a semaphore, and for a futex of the program's own: without SA_RESTART, with it, and
// with it and a limit. Natively different: the times at which the handler runs.
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sync.h"

static sem_t seat, handled;
static atomic_int word;

// What one thread tells the other goes by operations: in order parallel, that of a program's own atomics is not recorded.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int round_number;

static void set_round(int number)
{
	pthread_mutex_lock(&lock);
	round_number = number;
	pthread_mutex_unlock(&lock);
}

static int get_round(void)
{
	pthread_mutex_lock(&lock);
	int number = round_number;
	pthread_mutex_unlock(&lock);
	return number;
}

static void handler(int sig)
{
	(void)sig;
	sem_post(&handled);
}

static void *waiter(void *arg)
{
	struct timespec far, while_away = {1000, 0};
	(void)arg;
	clock_gettime(CLOCK_REALTIME, &far);
	far.tv_sec += 1000;
	for (int i = 0; i < 6; i++) {
		long ret;
		set_round(i + 1);
		if (i < 3)
			ret = i < 2 ? sem_wait(&seat) : sem_timedwait(&seat, &far);
		else
			ret = syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, i < 5 ? NULL : &while_away, NULL, 0);
		printf("%s\n", ret && errno == EINTR ? "interrupted" : ret ? strerror(errno) : "taken");
		word = 0;
	}
	set_round(7);
	return NULL;
}

int main(void)
{
	pthread_t thread;
	struct sigaction action = {.sa_handler = handler};
	sem_init(&seat, 0, 0);
	sem_init(&handled, 0, 0);
	sigaction(SIGUSR1, &action, NULL);
	CHECK(pthread_create(&thread, NULL, waiter, NULL) == 0);
	for (int i = 0; i < 6; i++) {
		while (get_round() != i + 1)
			nap();
		action.sa_flags = i % 3 ? SA_RESTART : 0;
		CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
		do { // until one comes when it waits
			nap();
			pthread_kill(thread, SIGUSR1);
			sem_wait(&handled);
			for (int times = 0; times < 20 && get_round() == i + 1; times++)
				nap();
		} while (get_round() == i + 1 && i % 3 != 1);
		if (i == 1)
			sem_post(&seat);
		if (i == 4) {
			word = 1;
			syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
		}
	}
	pthread_join(thread, NULL);
	return 0;
}
