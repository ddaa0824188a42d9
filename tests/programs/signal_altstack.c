// A handler on an alternate stack, with what sigaltstack says inside and outside; natively different: the times.
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static char memory[65536];
static volatile int on_it, flags_inside, denied;
static volatile long when;

static void handler(int sig, siginfo_t *info, void *context)
{
	char here;
	stack_t now, other = {.ss_flags = SS_DISABLE};
	struct timespec time;
	(void)sig;
	(void)info;
	on_it += &here >= memory && &here < memory + sizeof memory;
	sigaltstack(NULL, &now);
	flags_inside = now.ss_flags | ((ucontext_t *)context)->uc_stack.ss_flags << 8;
	denied += sigaltstack(&other, NULL) < 0 && errno == EPERM;
	clock_gettime(CLOCK_MONOTONIC, &time);
	when = time.tv_nsec;
}

int main(void)
{
	stack_t stack = {.ss_sp = memory, .ss_size = sizeof memory}, was, small = {.ss_sp = memory, .ss_size = 100};
	struct sigaction act = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_ONSTACK};
	int before = sigaltstack(NULL, &was);
	int refused = sigaltstack(&small, NULL) < 0 && errno == ENOMEM;
	sigaltstack(&stack, NULL);
	sigaction(SIGUSR1, &act, NULL);
	act.sa_flags = SA_SIGINFO;
	sigaction(SIGUSR2, &act, NULL);
	raise(SIGUSR1);
	raise(SIGUSR2);
	int denied_inside = denied; // only on the stack itself
	int lost = on_it;
	raise(SIGUSR1);
	sigaltstack(NULL, &was);
	printf("before %d refused %d on %d then %d inside %x denied %d outside %d when %ld\n", before, refused, lost, on_it,
	       flags_inside, denied_inside, was.ss_flags, when);
	return 0;
}
