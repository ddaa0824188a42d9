// POSIX timers that send a signal and that start a thread; natively different: overruns and who came when.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile int signals, value;
static int calls, shown; // both belong to the lock, so that no data race decides what is printed
static char trace[4096];

static void handler(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)context;
	signals++;
	value = value * 3 + info->si_value.sival_int + info->si_overrun;
}

static void notified(union sigval arg)
{
	pthread_mutex_lock(&lock);
	calls++;
	trace[strlen(trace)] = 'a' + (shown + arg.sival_int) % 26;
	pthread_mutex_unlock(&lock);
}

int main(void)
{
	struct sigaction act = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_RESTART};
	struct sigevent by_signal = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 1, .sigev_value = {.sival_int = 5}};
	struct sigevent by_thread = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = notified, .sigev_value = {.sival_int = 3}};
	struct itimerspec often = {{0, 1000000}, {0, 1000000}}, seldom = {{0, 4000000}, {0, 4000000}};
	timer_t a, b;
	int done = 0;
	sigaction(SIGRTMIN + 1, &act, NULL);
	timer_create(CLOCK_MONOTONIC, &by_signal, &a);
	timer_create(CLOCK_MONOTONIC, &by_thread, &b);
	timer_settime(a, 0, &often, NULL);
	timer_settime(b, 0, &seldom, NULL);
	while (signals < 40 || done < 5) {
		struct timespec pause = {0, 300000};
		nanosleep(&pause, NULL);
		pthread_mutex_lock(&lock);
		done = calls;
		shown = signals;
		pthread_mutex_unlock(&lock);
	}
	timer_delete(a);
	timer_delete(b);
	pthread_mutex_lock(&lock);
	printf("signals %d value %d calls %d %s\n", signals, value, calls, trace);
	pthread_mutex_unlock(&lock);
	return 0;
}
