// Signals that may all come at one moment: the kernel starts each handler in front of the first instruction of the one before.
// The floating-point mode is the program's own, but not that of its handlers.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>
#include <xmmintrin.h>

static char seen[256];
static stack_t stack;

static void say(const char *what)
{
	strcat(seen, what);
}

static void on_signal(int sig, siginfo_t *info, void *context)
{
	char text[64];
	const ucontext_t *at = context;
	sigset_t now;
	sigprocmask(SIG_BLOCK, NULL, &now);
	snprintf(text, sizeof text, "%d%s%s%s(", sig, sigismember(&now, SIGUSR1) ? "m" : "", _MM_GET_ROUNDING_MODE() ? "r" : "",
		 at->uc_mcontext.fpregs->mxcsr & 0x6000 ? "R" : "");
	say(text);
	if (info->si_signo != sig)
		abort();
	say(")");
}

static void install(int sig, int flags, int blocked)
{
	struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | flags};
	sigemptyset(&action.sa_mask);
	if (blocked)
		sigaddset(&action.sa_mask, blocked);
	sigaction(sig, &action, NULL);
}

static void all(const char *how, int begin)
{
	sigset_t every, before;
	sigfillset(&every);
	pthread_sigmask(SIG_BLOCK, &every, &before);
	kill(getpid(), SIGUSR2);
	pthread_kill(pthread_self(), SIGUSR1);
	kill(getpid(), SIGWINCH);
	sigqueue(getpid(), SIGRTMIN, (union sigval){1});
	sigqueue(getpid(), SIGRTMIN, (union sigval){2});
	*seen = 0;
	if (begin == 0)
		pthread_sigmask(SIG_SETMASK, &before, NULL);
	else
		sigsuspend(&before);
	printf("%s: %s\n", how, seen);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

int main(void)
{
	stack.ss_size = 65536;
	stack.ss_sp = malloc(stack.ss_size);
	sigaltstack(&stack, NULL);
	_MM_SET_ROUNDING_MODE(_MM_ROUND_UP);
	for (int flags = 0; flags < 4; flags++) {
		int how = (flags & 1 ? SA_ONSTACK : 0) | (flags & 2 ? SA_NODEFER : 0);
		install(SIGUSR1, how, 0);
		install(SIGUSR2, how, 0);
		install(SIGWINCH, how, flags & 1 ? SIGUSR1 : 0);
		install(SIGRTMIN, how, 0);
		all("a mask is opened", 0);
		all("a call waits", 1);
	}
	printf("%d\n", _MM_GET_ROUNDING_MODE() == _MM_ROUND_UP);
	return 0;
}
