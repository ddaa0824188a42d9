// Signals that the engine never blocks in the kernel (SIGSEGV, SIGBUS, SIGSYS, SIGTRAP), blocked by the program and sent to it:
// sigpending shows them, sigwait and its kin take them.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const int kept[] = {SIGSEGV, SIGBUS, SIGSYS, SIGTRAP};
static pthread_t waiter;

static void show(const char *what)
{
	sigset_t set;
	sigpending(&set);
	printf("%s:", what);
	for (int sig = 1; sig < 64; sig++)
		if (sigismember(&set, sig))
			printf(" %s", sigabbrev_np(sig));
	puts("");
}

static void *send(void *unused)
{
	for (int i = 0; i < 4; i++) {
		nanosleep(&(struct timespec){0, 20000000}, NULL);
		pthread_kill(waiter, kept[i]);
	}
	nanosleep(&(struct timespec){0, 20000000}, NULL);
	pthread_sigqueue(waiter, SIGTRAP, (union sigval){.sival_int = 77});
	return unused;
}

int main(void)
{
	sigset_t all, one;
	siginfo_t info;
	pthread_t thread;
	int sig;
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	show("none");
	for (int i = 0; i < 4; i++)
		kill(getpid(), kept[i]);
	raise(SIGUSR1);
	show("five");
	for (int i = 0; i < 4; i++) {
		sigemptyset(&one);
		sigaddset(&one, kept[i]);
		memset(&info, 0, sizeof info);
		sig = sigwaitinfo(&one, &info);
		printf("took %d, %s by %s\n", sig == kept[i], sigabbrev_np(info.si_signo), info.si_pid == getpid() ? "us" : "others");
	}
	show("one");
	sigemptyset(&one);
	sigaddset(&one, SIGTRAP);
	sig = sigtimedwait(&one, NULL, &(struct timespec){0, 1000000});
	printf("timed %d %s\n", sig, strerror(errno));

	waiter = pthread_self();
	pthread_create(&thread, NULL, send, NULL);
	for (int i = 0; i < 4; i++) {
		sigemptyset(&one);
		sigaddset(&one, kept[i]);
		printf("waited: %d", sigwait(&one, &sig));
		printf(" %s\n", sigabbrev_np(sig));
	}
	sig = sigwaitinfo(&all, &info);
	printf("first %s\n", sigabbrev_np(sig));
	sig = sigwaitinfo(&one, &info);
	printf("queued %s %d %d\n", sigabbrev_np(sig), info.si_code == SI_QUEUE, info.si_value.sival_int);
	pthread_join(thread, NULL);
	show("none");
	return 0;
}
