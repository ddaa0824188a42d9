// Calls that only ask, thousands of times from one instruction: every register and flag is kept, a bad address is an error, and
// signals come in between.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS 2000

// rdi, rsi, rdx, r8, r9, r10, rbx, rbp, r12-r15, the flags in front of the call and behind it, the result, rsp as it was and is
struct state { uint64_t in[12], out[12], flags, flags_after, result, rsp, rsp_after; };

static struct state state;
static volatile long wrong;
static volatile unsigned long came, sum;
static volatile int at;

static void ask(long nr)
{
	__asm__ volatile(
		"push %%rbp\n\tpush %%rbx\n\tpush %%r12\n\tpush %%r13\n\tpush %%r14\n\tpush %%r15\n\t"
		"mov %%rsp, state+216(%%rip)\n\t"
		"mov state(%%rip), %%rdi\n\tmov state+8(%%rip), %%rsi\n\tmov state+16(%%rip), %%rdx\n\t"
		"mov state+24(%%rip), %%r8\n\tmov state+32(%%rip), %%r9\n\tmov state+40(%%rip), %%r10\n\t"
		"mov state+48(%%rip), %%rbx\n\tmov state+56(%%rip), %%rbp\n\tmov state+64(%%rip), %%r12\n\t"
		"mov state+72(%%rip), %%r13\n\tmov state+80(%%rip), %%r14\n\tmov state+88(%%rip), %%r15\n\t"
		"pushq state+192(%%rip)\n\tpopfq\n\t"
		"syscall\n\t"
		"mov %%rcx, %%rcx\n\tnop\n\tnop\n\tnop\n\t" // what a jump may replace, and leaves the flags
		"pushfq\n\tpopq state+200(%%rip)\n\tcld\n\t"
		"mov %%rax, state+208(%%rip)\n\tmov %%rsp, state+224(%%rip)\n\t"
		"mov %%rdi, state+96(%%rip)\n\tmov %%rsi, state+104(%%rip)\n\tmov %%rdx, state+112(%%rip)\n\t"
		"mov %%r8, state+120(%%rip)\n\tmov %%r9, state+128(%%rip)\n\tmov %%r10, state+136(%%rip)\n\t"
		"mov %%rbx, state+144(%%rip)\n\tmov %%rbp, state+152(%%rip)\n\tmov %%r12, state+160(%%rip)\n\t"
		"mov %%r13, state+168(%%rip)\n\tmov %%r14, state+176(%%rip)\n\tmov %%r15, state+184(%%rip)\n\t"
		"pop %%r15\n\tpop %%r14\n\tpop %%r13\n\tpop %%r12\n\tpop %%rbx\n\tpop %%rbp\n\t"
		: "+a"(nr) : : "rdi", "rsi", "rdx", "rcx", "r8", "r9", "r10", "r11", "memory", "cc");
}

static void registers(void)
{
	static const long numbers[] = {SYS_getppid, SYS_clock_gettime, SYS_gettimeofday, SYS_getrlimit, SYS_getpriority, SYS_gettid};
	static const uint64_t flags[] = {0x202, 0x203, 0xa02, 0xed7, 0x602, 0x293, 0x40202};
	struct timespec t;
	char room[64];
	for (int round = 0; round < ROUNDS; round++)
		for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; i++) {
			for (int r = 0; r < 12; r++)
				state.in[r] = 0x1111111111111111ULL * (r + 1) + round;
			state.in[0] = numbers[i] == SYS_gettimeofday ? (uint64_t)room : numbers[i] == SYS_clock_gettime ? CLOCK_MONOTONIC : 0;
			state.in[1] = numbers[i] == SYS_getrlimit ? (uint64_t)room : numbers[i] == SYS_clock_gettime ? (uint64_t)&t : 0;
			state.flags = flags[round % (sizeof flags / sizeof *flags)];
			ask(numbers[i]);
			wrong += memcmp(state.in, state.out, sizeof state.in) != 0;
			wrong += (state.flags ^ state.flags_after) != 0;
			wrong += state.rsp != state.rsp_after || (int64_t)state.result < 0;
		}
	printf("registers: wrong %ld\n", wrong);
}

static void addresses(void)
{
	char *volatile nowhere = (char *)16;
	int errors = 0;
	for (int round = 0; round < ROUNDS; round++) {
		errors += syscall(SYS_clock_gettime, CLOCK_MONOTONIC, nowhere) == -1 && errno == EFAULT;
		errors += syscall(SYS_clock_gettime, 77, nowhere) == -1 && errno == EINVAL;
		errors += syscall(SYS_gettimeofday, nowhere, NULL) == -1 && errno == EFAULT;
		errors += syscall(SYS_getrlimit, 999, nowhere) == -1 && errno == EINVAL;
	}
	printf("addresses: %d errors of %d\n", errors, 4 * ROUNDS);
}

static void on_alarm(int sig)
{
	struct timespec t;
	(void)sig;
	clock_gettime(CLOCK_REALTIME, &t);
	sum = sum * 31 + at + t.tv_nsec;
	came++;
}

// The sum tells where each signal came, and what the clock said there.
static void signals(void)
{
	struct itimerval often = {{0, 300}, {0, 300}}, never = {{0, 0}, {0, 0}};
	struct timespec t;
	signal(SIGALRM, on_alarm);
	setitimer(ITIMER_REAL, &often, NULL);
	for (at = 0; came < 50; at++) {
		clock_gettime(CLOCK_MONOTONIC, &t);
		sum += t.tv_nsec + getppid();
	}
	setitimer(ITIMER_REAL, &never, NULL);
	printf("signals: %lx behind %d\n", sum, at);
}

static void *ask_often(void *unused)
{
	unsigned long mine = 0;
	struct timespec t;
	for (int round = 0; round < ROUNDS; round++) {
		clock_gettime(CLOCK_MONOTONIC, &t);
		mine = mine * 31 + t.tv_nsec + syscall(SYS_gettid);
	}
	__atomic_fetch_add(&sum, mine, __ATOMIC_RELAXED);
	return unused;
}

static void threads(void)
{
	pthread_t other[3];
	for (int i = 0; i < 3; i++)
		pthread_create(&other[i], NULL, ask_often, NULL);
	ask_often(NULL);
	for (int i = 0; i < 3; i++)
		pthread_join(other[i], NULL);
	printf("threads: %lx\n", sum);
}

int main(void)
{
	registers();
	addresses();
	signals();
	threads();
	return wrong != 0;
}
