// A thread takes signals with sigwaitinfo and with signalfd; natively different: senders and order.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <unistd.h>

static sigset_t set;
static long sum;

static void *waiter(void *arg)
{
	(void)arg;
	for (int i = 0; i < 20; i++) {
		siginfo_t info;
		int sig = sigwaitinfo(&set, &info);
		sum = sum * 7 + sig + info.si_value.sival_int;
	}
	int fd = signalfd(-1, &set, 0);
	for (int i = 0; i < 20; i++) {
		struct signalfd_siginfo info;
		if (read(fd, &info, sizeof info) != sizeof info)
			return NULL;
		sum = sum * 7 + info.ssi_signo + info.ssi_int;
	}
	return NULL;
}

int main(void)
{
	pthread_t thread;
	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN);
	sigaddset(&set, SIGRTMIN + 3);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	pthread_create(&thread, NULL, waiter, NULL);
	for (int i = 0; i < 40; i++) {
		union sigval value = {.sival_int = getpid() + i};
		sigqueue(getpid(), i % 3 ? SIGRTMIN : SIGRTMIN + 3, value);
		if (i % 5 == 0)
			usleep(100);
	}
	pthread_join(thread, NULL);
	printf("sum %ld\n", sum);
	return 0;
}
