// A handler for SIGSEGV that leaves by siglongjmp, on an alternate stack; natively different: which page is touched.
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

static sigjmp_buf back;
static volatile long faults, codes, sum;

static void handler(int sig, siginfo_t *info, void *context)
{
	(void)context;
	faults++;
	codes += info->si_code;
	sum = sum * 31 + (long)info->si_addr % 997;
	siglongjmp(back, sig);
}

int main(void)
{
	static char memory[65536];
	stack_t stack = {.ss_sp = memory, .ss_size = sizeof memory};
	struct sigaction act = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_ONSTACK};
	char *pages = mmap(NULL, 64 * 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	sigaltstack(&stack, NULL);
	sigaction(SIGSEGV, &act, NULL);
	for (volatile int i = 0; i < 50; i++) {
		struct timespec now;
		clock_gettime(CLOCK_MONOTONIC, &now);
		if (sigsetjmp(back, 1) == 0)
			pages[now.tv_nsec % 64 * 4096 + i] = 1;
	}
	printf("faults %ld codes %ld sum %ld\n", faults, codes, sum);
	return 0;
}
