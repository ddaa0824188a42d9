// How deep a recursion comes depends on the limit that the program has set: a lower one, then a higher one again.
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static sigjmp_buf out;
static int depth;
static volatile int on = 1;

static void caught(int sig)
{
	siglongjmp(out, sig);
}

static int deeper(void)
{
	volatile char room[1000];
	depth++;
	room[0] = 0;
	return on ? deeper() + room[0] : 0;
}

static int reached(void)
{
	depth = 0;
	if (!sigsetjmp(out, 1))
		return deeper();
	return depth;
}

int main(void)
{
	static char alternate[65536];
	stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate};
	struct sigaction action = {.sa_handler = caught, .sa_flags = SA_ONSTACK};
	struct rlimit limit;
	sigaltstack(&stack, NULL);
	sigaction(SIGSEGV, &action, NULL);
	getrlimit(RLIMIT_STACK, &limit);
	limit.rlim_cur = 500000;
	printf("%d ", setrlimit(RLIMIT_STACK, &limit));
	printf("%d\n", reached());
	limit.rlim_cur = 1000000;
	printf("%d ", prlimit(0, RLIMIT_STACK, &limit, NULL));
	printf("%d\n", reached());
	limit.rlim_cur = 1500000;
	printf("%d ", prlimit(getpid(), RLIMIT_STACK, &limit, NULL));
	printf("%d\n", reached());
	return 0;
}
