// Signals that are pending over many operations, of the process, of a thread, and queued with values; then all are handled.
// Natively different: the process's id that comes with them.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CALLS 40

long handled, values, waited, sender;
static pthread_barrier_t together;

static void handler(int sig, siginfo_t *info, void *context)
{
	(void)context;
	handled = handled * 10 + (sig == SIGUSR1 ? 1 : sig == SIGUSR2 ? 2 : 3);
	sender = info->si_pid;
	if (sig >= SIGRTMIN)
		values = values * 10 + info->si_value.sival_int;
}

static int pending(void)
{
	sigset_t set;
	sigpending(&set);
	return sigismember(&set, SIGUSR1) + 2 * sigismember(&set, SIGUSR2) + 4 * sigismember(&set, SIGRTMIN) + 8 * sigismember(&set, SIGHUP);
}

static int meanwhile(void)
{
	int seen = 0;
	for (int i = 0; i < CALLS; i++)
		seen |= getppid() < 0 ? 0 : pending();
	return seen;
}

static void *work(void *arg)
{
	sigset_t set;
	pthread_barrier_wait(&together); // now the process's are pending, and this thread's own
	*(int *)arg = meanwhile();
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	pthread_barrier_wait(&together);
	return NULL;
}

int main(void)
{
	sigset_t set, hup;
	pthread_t thread;
	int theirs = 0, sig;
	struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
	sigaction(SIGUSR1, &action, NULL);
	sigaction(SIGUSR2, &action, NULL);
	sigaction(SIGRTMIN, &action, NULL);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGUSR2);
	sigaddset(&set, SIGRTMIN);
	sigaddset(&set, SIGHUP);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	pthread_barrier_init(&together, NULL, 2);
	pthread_create(&thread, NULL, work, &theirs);
	kill(getpid(), SIGUSR1);
	kill(getpid(), SIGHUP);
	pthread_kill(thread, SIGUSR2);
	for (int i = 1; i <= 3; i++)
		sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = i});
	pthread_barrier_wait(&together);
	int ours = meanwhile();
	pthread_barrier_wait(&together);
	pthread_join(thread, NULL);
	sigemptyset(&hup);
	sigaddset(&hup, SIGHUP);
	waited = sigwait(&hup, &sig) == 0 && sig == SIGHUP;
	meanwhile();
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	printf("ours %x theirs %x handled %ld values %ld waited %ld left %x, from %s %ld\n", ours, theirs, handled, values, waited,
	       pending(), sender == getpid() ? "itself" : "another", sender);
	return 0;
}
