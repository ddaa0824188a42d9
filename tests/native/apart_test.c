// Executes instructions apart, as the engine does, and by the processor, in a process that is single-stepped: registers, flags, vector
// state and touched memory have to be equal behind each. First random instructions, then those of a program's functions.
// Runs in: a program of its own, started by tests/unit/test_apart.py. Arguments: how many random ones, how many steps; a
// third one makes it forget the carry flag.
// May call: libc.
// Owns: the traced process.
#include "signal/preempt/apart.h"

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "core/copy.h"
#include "patch/patch.h"

#define ROOM 0x10000
#define MIDDLE (ROOM / 2)
#define STATUS 0xcd5ULL
#define BYTES 15

static pid_t child;
static uint8_t *room, *code; // at the same address in both
static bool forgets;
static unsigned long compared, unknown, faults, failures;
static sigjmp_buf illegal; // to where it is executed, from one that no processor knows

// ---------------------------------------------------------------- what the engine would give
size_t gr_peek(void *dst, uint64_t src, size_t n)
{
	struct iovec local = {dst, n}, remote = {(void *)src, n};
	ssize_t got = process_vm_readv(child, &local, 1, &remote, 1, 0);
	return got < 0 ? 0 : (size_t)got;
}

long gr_text_open(void)
{
	return 0;
}

void gr_text_close(long fd)
{
	(void)fd;
}

bool gr_text_put(long fd, uint64_t addr, const void *bytes, uint64_t length, int protection)
{
	uint64_t page = addr & ~4095ULL;
	(void)fd;
	if (mprotect((void *)page, 8192, protection | PROT_WRITE))
		return false;
	memcpy((void *)addr, bytes, length);
	return true;
}

// ---------------------------------------------------------------- the other process
static void get(uint64_t greg[GR_STATE_REGISTERS], uint64_t *fs_base, struct user_fpregs_struct *vectors)
{
	struct user_regs_struct r;
	ptrace(PTRACE_GETREGS, child, 0, &r);
	ptrace(PTRACE_GETFPREGS, child, 0, vectors);
	const uint64_t values[] = {r.r8, r.r9, r.r10, r.r11, r.r12, r.r13, r.r14, r.r15, r.rdi,
				   r.rsi, r.rbp, r.rbx, r.rdx, r.rax, r.rcx, r.rsp, r.rip, r.eflags};
	memcpy(greg, values, sizeof values);
	*fs_base = r.fs_base;
}

static int step(void)
{
	int status;
	ptrace(PTRACE_SINGLESTEP, child, 0, 0);
	waitpid(child, &status, 0);
	return WIFSTOPPED(status) ? WSTOPSIG(status) : 0;
}

static void complain(const char *what, const uint8_t *bytes, uint64_t here, uint64_t there)
{
	if (failures++ > 20)
		return;
	printf("%s: apart %#lx, by the processor %#lx:", what, here, there);
	for (unsigned i = 0; i < BYTES; i++)
		printf(" %02x", bytes[i]);
	printf("\n");
}

static void compare(const uint8_t *bytes)
{
	static const char *const names[] = {"r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "rdi",
					    "rsi", "rbp", "rbx", "rdx", "rax", "rcx", "rsp", "rip"};
	uint64_t greg[GR_STATE_REGISTERS], fs_base, value;
	struct user_fpregs_struct vectors;
	get(greg, &fs_base, &vectors);
	compared++;
	for (unsigned i = 0; i < REG_EFL; i++)
		if (gr_apart.greg[i] != greg[i])
			complain(names[i], bytes, gr_apart.greg[i], greg[i]);
	if ((gr_apart.greg[REG_EFL] ^ greg[REG_EFL]) & STATUS)
		complain("flags", bytes, gr_apart.greg[REG_EFL] & STATUS, greg[REG_EFL] & STATUS);
	for (uint32_t i = 0; i < gr_apart.count; i++)
		if (gr_peek(&value, gr_apart.word[i].addr, 8) == 8 && value != gr_apart.word[i].now)
			complain("memory", bytes, gr_apart.word[i].now, value);
	for (unsigned i = 0; i < GR_APART_VECTORS; i += 8)
		if (memcmp(gr_apart.vectors + i, (const uint8_t *)&vectors + i, 8) != 0)
			complain("vector state", bytes, *(uint64_t *)(gr_apart.vectors + i), *(uint64_t *)((uint8_t *)&vectors + i));
}

static void refused(int sig)
{
	siglongjmp(illegal, sig);
}

// One instruction, where the other process is. False: it has ended, or got a signal.
static bool both(bool steps_unknown)
{
	uint64_t greg[GR_STATE_REGISTERS], fs_base;
	uint8_t bytes[BYTES] = {0};
	struct user_fpregs_struct vectors;
	get(greg, &fs_base, &vectors);
	gr_peek(bytes, greg[REG_RIP], sizeof bytes);
	gr_apart_begin(greg, &vectors);
	bool legal = !sigsetjmp(illegal, 1), known = legal && gr_apart_step(fs_base) == GR_TOUCH_KNOWN;
	unknown += legal && !known;
	if (forgets)
		gr_apart.greg[REG_EFL] &= ~1ULL;
	if (legal && !known && !steps_unknown) // it may be a call of the kernel
		return true;
	bool stepped = step() == SIGTRAP;
	if (!legal && stepped)
		complain("legal", bytes, legal, stepped);
	if (known && stepped)
		compare(bytes);
	return stepped;
}

// ---------------------------------------------------------------- random instructions
static uint64_t drawn(void)
{
	static uint64_t x = 88172645463325252;
	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return x * 0x2545f4914f6cdd1d;
}

static uint64_t drawn_place(void)
{
	return (uint64_t)room + MIDDLE + drawn() % 256 * 8;
}

static void draw_instruction(void)
{
	static const uint8_t prefixes[] = {0x66, 0xf0, 0xf2, 0xf3, 0x64, 0x2e};
	unsigned n = 0;
	if (drawn() % 4 == 0)
		code[n++] = prefixes[drawn() % sizeof prefixes];
	if (drawn() % 2)
		code[n++] = 0x40 | drawn() % 16;
	if (drawn() % 3 == 0)
		code[n++] = 0x0f;
	for (unsigned i = 0; i < BYTES; i++)
		code[n++] = (uint8_t)drawn();
	if (drawn() % 2) // a short distance
		code[n - 10] = code[n - 11] = code[n - 12] = 0;
}

static void random_ones(unsigned long many)
{
	struct user_regs_struct first, r;
	struct user_fpregs_struct vectors;
	ptrace(PTRACE_GETREGS, child, 0, &first);
	ptrace(PTRACE_GETFPREGS, child, 0, &vectors);
	for (unsigned long i = 0; i < many; i++) {
		r = first;
		unsigned long long *const registers[] = {&r.rax, &r.rcx, &r.rdx, &r.rbx, &r.rsp, &r.rbp, &r.rsi, &r.rdi,
							 &r.r8, &r.r9, &r.r10, &r.r11, &r.r12, &r.r13, &r.r14, &r.r15};
		for (unsigned n = 0; n < 16; n++)
			*registers[n] = drawn() % 4 && n != 4 ? drawn_place() : n == 4 ? drawn_place() : drawn() % 64;
		for (unsigned n = 0; n < sizeof vectors.xmm_space / 4; n++)
			vectors.xmm_space[n] = (unsigned)drawn();
		r.rip = (uint64_t)code;
		r.orig_rax = -1;
		r.eflags = 0x202 | (drawn() & 0x8d5);
		draw_instruction();
		ptrace(PTRACE_SETREGS, child, 0, &r);
		ptrace(PTRACE_SETFPREGS, child, 0, &vectors);
		faults += !both(false);
	}
	kill(child, SIGKILL);
}

// ---------------------------------------------------------------- a program
static int by_value(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

static void work(void)
{
	static int numbers[300];
	static volatile double sum;
	static unsigned __int128 product = 3;
	char text[200];
	for (;;) {
		for (unsigned i = 0; i < 300; i++)
			numbers[i] = (int)(drawn() % 1000);
		qsort(numbers, 300, sizeof *numbers, by_value);
		snprintf(text, sizeof text, "%d %g %s %lx", numbers[7], (double)numbers[9] / 7, "some text", drawn());
		sum += strtod(text + 4, NULL) * 1.5 + (float)numbers[3];
		product = product * drawn() + product / (drawn() | 1);
		__atomic_fetch_add(&numbers[1], 3, __ATOMIC_SEQ_CST);
		__atomic_exchange_n(&numbers[2], (int)product, __ATOMIC_SEQ_CST);
		sum += sqrt(sum + (double)strlen(text));
	}
}

static void begin(void)
{
	int status;
	child = fork();
	if (!child) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		raise(SIGSTOP);
		work();
	}
	waitpid(child, &status, 0);
}

int main(int argc, char **argv)
{
	unsigned long random = argc > 1 ? strtoul(argv[1], NULL, 0) : 100000, steps = argc > 2 ? strtoul(argv[2], NULL, 0) : 100000;
	forgets = argc > 3;
	room = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	code = mmap(NULL, ROOM, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (unsigned i = 0; i < ROOM; i++)
		room[i] = (uint8_t)drawn();
	begin();
	signal(SIGILL, refused);
	random_ones(random);
	printf("%lu random ones compared, %lu unknown, %lu faults\n", compared, unknown, faults);
	unsigned long before = compared;
	unknown = 0;
	begin();
	for (unsigned long i = 0; i < steps && both(true); i++)
		;
	printf("%lu of %lu steps compared, %lu unknown\n", compared - before, steps, unknown);
	kill(child, SIGKILL);
	printf("%lu failures\n", failures);
	return failures != 0;
}
