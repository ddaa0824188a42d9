// Reads one letter from FILE and does what it says: '.' nothing; everything else is an attack on whatever replays it.
//   t  makes threads without end              s  stops itself             h  never comes to an operation again
//   p  writes all over the page it shares with the controller, again and again
//   e  says that it has ended, and stays      b  says that it gave up, with words without end
//   n  says that there were 2^40 hits         i  writes into what is behind its standard input
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../../preload/abi.h"
#include "gate.h"

static struct gr_ctl *const page = (struct gr_ctl *)GR_CTL_ADDR;
static char stack[1 << 16];

static void rest(void) // for ever, in the kernel
{
	static uint32_t word;
	for (;;)
		CALL(SYS_futex, &word, 0 /* FUTEX_WAIT */, 0, 0, 0, 0);
}

// Each new thread comes back from the gate on a stack of its own, where the way on is written, and waits in the kernel.
static void storm(void)
{
	static uint32_t word;
	register char *top __asm__("r12") = stack + sizeof stack - 256;
	register uint32_t *waits __asm__("r13") = &word;
	__asm__ volatile("lea 2f(%%rip), %%rax\n"
			 "mov %%rax, (%%r12)\n"
			 "1: mov %[clone], %%eax\n"
			 "mov %[flags], %%edi\n"
			 "mov %%r12, %%rsi\n"
			 "xor %%edx, %%edx\n"
			 "xor %%r10d, %%r10d\n"
			 "xor %%r8d, %%r8d\n"
			 "call *%%rbx\n"
			 "2: test %%rax, %%rax\n"
			 "jg 1b\n"
			 "js 4f\n"
			 "3: mov %[futex], %%eax\n"
			 "mov %%r13, %%rdi\n"
			 "xor %%esi, %%esi\n"
			 "xor %%edx, %%edx\n"
			 "xor %%r10d, %%r10d\n"
			 "call *%%rbx\n"
			 "jmp 3b\n"
			 "4:\n"
			 :
			 : "b"(gate), "r"(top), "r"(waits), [clone] "i"(SYS_clone), [futex] "i"(SYS_futex),
			   [flags] "i"(CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM)
			 : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r10", "r11", "memory");
	rest();
}

static void scribble(void)
{
	uint64_t seed = 1;
	for (;;)
		for (volatile uint64_t *word = (uint64_t *)page; word < (uint64_t *)(page + 1); word += 1 + seed % 61) {
			seed = seed * 6364136223846793005 + 1442695040888963407;
			*word = seed >> (seed % 64);
		}
}

int main(int argc, char **argv)
{
	char letter = '.';
	long pid;
	int fd = open(argv[argc - 1], O_RDONLY);
	if (read(fd, &letter, 1) != 1 || letter == '.')
		return 0;
	dl_iterate_phdr(find_gate, NULL);
	switch (letter) {
	case 't':
		storm();
		break;
	case 's':
		pid = CALL(SYS_getpid);
		CALL(SYS_tgkill, pid, pid, SIGSTOP);
		CALL(SYS_kill, pid, SIGSTOP);
		break;
	case 'h':
		rest();
		break;
	case 'p':
		scribble();
		break;
	case 'e':
		page->slot[0].state = GR_S_ENDED;
		rest();
		break;
	case 'b':
		for (size_t i = 0; i < sizeof page->slot[0].panic; i++)
			((uint8_t *)&page->slot[0].panic)[i] = 0x1b;
		page->slot[0].state = GR_S_PANIC;
		rest();
		break;
	case 'n':
		for (int i = 0; i < GR_SLOTS; i++)
			page->slot[i].hits = 1ULL << 40;
		rest();
		break;
	case 'i':
		fd = CALL(SYS_open, "/proc/self/fd/0", O_WRONLY);
		CALL(SYS_write, fd, "led\n", 4);
		CALL(SYS_write, 0, "led\n", 4);
		break;
	}
	CALL(SYS_exit_group, 0);
}
