// Signals for a thread whose stack pointer leads to where no handler's frame can be: nowhere, or to what cannot be written. The kernel
// makes a SIGSEGV of each. Usage: signal_no_room nowhere|const|raise|small alternate|plain|blocked|default
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

static char room[1 << 16];
static int sizes[2];

static void handle(int sig, siginfo_t *info, void *context)
{
	greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;
	char text[100];
	int n = snprintf(text, sizeof text, "signal %d code %d at %p\n", sig, info->si_code, info->si_addr);
	write(1, text, n);
	if (sig == SIGUSR1)
		__asm__ volatile("ud2");
	if (sig == SIGSEGV && sizes[0]++)
		_exit(3);
	if (((unsigned char *)regs[REG_RIP])[0] == 0x0f && ((unsigned char *)regs[REG_RIP])[1] == 0x0b)
		regs[REG_RIP] += 2; // ud2
}

static void fault_at(unsigned long stack)
{
	__asm__ volatile("mov %%rsp, %%rbx; mov %0, %%rsp; ud2; mov %%rbx, %%rsp" : : "r"(stack) : "rbx", "memory");
}

static void raise_at(unsigned long stack)
{
	long ret = SYS_tgkill;
	__asm__ volatile("mov %%rsp, %%rbx; mov %1, %%rsp; syscall; mov %%rbx, %%rsp"
			 : "+a"(ret)
			 : "r"(stack), "D"((long)getpid()), "S"((long)gettid()), "d"((long)SIGUSR1)
			 : "rbx", "rcx", "r11", "memory");
}

int main(int argc, char **argv)
{
	stack_t stack = {.ss_sp = room, .ss_size = sizeof room};
	struct sigaction act = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO};
	char *page = mmap(NULL, 1 << 16, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	sigset_t set;
	if (argc < 3)
		return 2;
	sigaltstack(&stack, NULL);
	sigaction(SIGILL, &act, NULL);
	sigaction(SIGUSR1, &act, NULL);
	if (!strcmp(argv[1], "small")) { // of the least size that the kernel takes; in a handler on it there is no room for another one's frame
		stack.ss_size = 2048;
		sigaltstack(&stack, NULL);
		act.sa_flags |= SA_ONSTACK;
		sigaction(SIGILL, &act, NULL);
		sigaction(SIGUSR1, &act, NULL);
	}
	if (!strcmp(argv[2], "alternate"))
		act.sa_flags |= SA_ONSTACK;
	if (strcmp(argv[2], "default"))
		sigaction(SIGSEGV, &act, NULL);
	sigemptyset(&set);
	sigaddset(&set, SIGSEGV);
	if (!strcmp(argv[2], "blocked"))
		sigprocmask(SIG_BLOCK, &set, NULL);
	if (!strcmp(argv[1], "nowhere"))
		fault_at(0x800794b90ed0);
	if (!strcmp(argv[1], "const"))
		fault_at((unsigned long)page + (1 << 15));
	if (!strcmp(argv[1], "raise"))
		raise_at((unsigned long)page + (1 << 15));
	if (!strcmp(argv[1], "small"))
		raise(SIGUSR1);
	write(1, "went on\n", 8);
	return 0;
}
