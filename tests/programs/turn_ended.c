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

static sem_t seat;
static atomic_int word, handled, round_number;

static void handler(int sig)
{
	(void)sig;
	handled++;
}

static void *waiter(void *arg)
{
	struct timespec far, while_away = {1000, 0};
	(void)arg;
	clock_gettime(CLOCK_REALTIME, &far);
	far.tv_sec += 1000;
	for (int i = 0; i < 6; i++) {
		long ret;
		round_number = i + 1;
		if (i < 3)
			ret = i < 2 ? sem_wait(&seat) : sem_timedwait(&seat, &far);
		else
			ret = syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, i < 5 ? NULL : &while_away, NULL, 0);
		printf("%s\n", ret && errno == EINTR ? "interrupted" : ret ? strerror(errno) : "taken");
		word = 0;
	}
	round_number = 7;
	return NULL;
}

int main(void)
{
	pthread_t thread;
	struct sigaction action = {.sa_handler = handler};
	sem_init(&seat, 0, 0);
	sigaction(SIGUSR1, &action, NULL);
	CHECK(pthread_create(&thread, NULL, waiter, NULL) == 0);
	for (int i = 0; i < 6; i++) {
		while (round_number != i + 1)
			nap();
		action.sa_flags = i % 3 ? SA_RESTART : 0;
		CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
		do { // until one comes when it waits
			int before = handled;
			nap();
			pthread_kill(thread, SIGUSR1);
			while (handled == before)
				nap();
			for (int times = 0; times < 20 && round_number == i + 1; times++)
				nap();
		} while (round_number == i + 1 && i % 3 != 1);
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
