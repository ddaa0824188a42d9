// Signals that waited: when they are let in, the handlers of all of them have run before the next instruction.
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

static int values[64], count;
static double kept;

static void on_signal(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)context;
	double some = 3.0;
	__asm__ volatile("mulsd %0, %0; movapd %0, %%xmm7; movapd %0, %%xmm15" : "+x"(some) : : "xmm7", "xmm15");
	values[count++] = info->si_value.sival_int + (some > 8 ? 0 : 1000);
}

static void on_other(int sig)
{
	values[count++] = -sig;
}

static void show(const char *what)
{
	int sum = 0;
	for (int i = 0; i < count; i++)
		sum += values[i] * (values[i] > 0 ? i + 1 : 1);
	printf("%s: %d handlers, %d, first %d, last %d\n", what, count, sum, count ? values[0] : 0, count ? values[count - 1] : 0);
	count = 0;
}

static void queue(const char *what, int flags, int signals)
{
	static stack_t stack = {.ss_size = 65536};
	sigset_t set, old;
	struct sigaction act = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | flags};
	stack.ss_sp = stack.ss_sp ? stack.ss_sp : malloc(stack.ss_size);
	sigaltstack(&stack, NULL);
	sigemptyset(&set);
	for (int i = 0; i < signals; i++) {
		sigaction(SIGRTMIN + i, &act, NULL);
		sigaddset(&set, SIGRTMIN + i);
	}
	act.sa_mask = set; // one at a time: otherwise the kernel lets the handler of the last one run first
	for (int i = 0; i < signals; i++)
		sigaction(SIGRTMIN + i, &act, NULL);
	sigprocmask(SIG_BLOCK, &set, &old);
	for (int i = 1; i <= 20; i++)
		sigqueue(getpid(), SIGRTMIN + i % signals, (union sigval){.sival_int = i});
	show("blocked");
	__asm__ volatile("movq %0, %%xmm7; movq %0, %%xmm15" : : "r"(4611686018427387904) : "xmm7", "xmm15"); // 2.0
	register long ret __asm__("rax") = 14; // rt_sigprocmask
	register long size __asm__("r10") = 8;
	__asm__ volatile("syscall; movq %%xmm7, %%rdx; movq %%rdx, %1"
			 : "+a"(ret), "=m"(kept)
			 : "D"(SIG_SETMASK), "S"(&old), "d"(NULL), "r"(size)
			 : "rcx", "r11", "memory");
	int now = count;
	printf("%s: at once %d of 20, vectors %g\n", what, now, kept);
	show(what);
}

int main(void)
{
	queue("one", 0, 1);
	queue("again", 0, 1);
	queue("own stack", SA_ONSTACK, 1);
	queue("three", SA_RESTART, 3);
	struct sigaction act = {.sa_handler = on_other};
	sigset_t set, old;
	sigfillset(&act.sa_mask);
	sigaction(SIGUSR1, &act, NULL);
	sigaction(SIGUSR2, &act, NULL);
	sigaction(SIGALRM, &act, NULL);
	sigfillset(&set);
	sigprocmask(SIG_BLOCK, &set, &old);
	raise(SIGUSR2);
	raise(SIGUSR1);
	raise(SIGUSR1);
	sigfillset(&set);
	sigdelset(&set, SIGUSR1);
	sigdelset(&set, SIGUSR2);
	sigsuspend(&set);
	show("suspended");
	sigprocmask(SIG_SETMASK, &old, NULL);
	show("rest");
	return 0;
}
