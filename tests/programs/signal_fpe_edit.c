// A handler for SIGFPE mends the divisor in the interrupted registers; natively different: the dividend.
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <ucontext.h>

static volatile int mended;

static void handler(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)info;
	((ucontext_t *)context)->uc_mcontext.gregs[REG_RCX] = 7;
	mended++;
}

int main(void)
{
	struct sigaction act = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
	struct timespec now;
	long quotient, rest;
	sigaction(SIGFPE, &act, NULL);
	clock_gettime(CLOCK_MONOTONIC, &now);
	__asm__ volatile("xor %%ecx, %%ecx; xor %%edx, %%edx; divq %%rcx"
			 : "=a"(quotient), "=d"(rest)
			 : "0"(now.tv_nsec)
			 : "rcx", "cc");
	printf("%ld = %ld * 7 + %ld, mended %d\n", now.tv_nsec, quotient, rest, mended);
	return 0;
}
