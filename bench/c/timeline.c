// Programs to go back in, and what bare parts of that cost natively. WHAT [NUMBER [NUMBER]]:
//   fork MB ROUNDS    a bare fork of a process with so much memory: ms
//   traps N           a debug register's hit with a handler that does nothing: us
//   stay MB           has so much memory, and then some 10 ms between operations
//   writes N          stores to one word N times, in 64 stretches with operations in between
//   runs SECONDS      computes, with an operation each millisecond; the last store to `word` comes at the end
//   once EPOCHS       stores to `word` early, then nothing but operations and computing, 20 ms for each epoch
#define _GNU_SOURCE
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct page { volatile long word; char rest[4088]; } __attribute__((aligned(4096)));
struct page watched;
#define word watched.word
static volatile unsigned long sink;

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

static void fill(size_t megabytes)
{
	size_t size = megabytes << 20;
	char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		exit(1);
	for (size_t at = 0; at < size; at += 4096)
		memory[at] = at >> 12 | 1;
}

// About a millisecond.
static void compute(void)
{
	for (unsigned i = 0; i < 600000; i++)
		sink += i;
}

static void handler(int sig)
{
	(void)sig;
}

static int traps(long n)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_BREAKPOINT, .size = sizeof attr, .bp_type = HW_BREAKPOINT_W, .bp_addr = (unsigned long)&word,
		.bp_len = 8, .sample_period = 1, .exclude_kernel = 1, .exclude_hv = 1, .remove_on_exec = 1, .sigtrap = 1,
	};
	signal(SIGTRAP, handler);
	if (syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC) < 0)
		return 2;
	double start = now();
	for (long i = 0; i < n; i++)
		word = i;
	printf("%.3f\n", (now() - start) / n * 1e6);
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argv[1];
	long first = argc > 2 ? atol(argv[2]) : 0, second = argc > 3 ? atol(argv[3]) : 0;
	if (!strcmp(what, "fork")) {
		fill(first);
		for (long i = 0; i < second; i++) {
			double start = now();
			pid_t pid = fork();
			if (pid == 0)
				_exit(0);
			double end = now();
			waitpid(pid, NULL, 0);
			printf("%.3f ", (end - start) * 1e3);
		}
		puts("");
	} else if (!strcmp(what, "traps")) {
		return traps(first);
	} else if (!strcmp(what, "stay")) {
		fill(first);
		for (int i = 0; i < 40; i++) {
			getppid();
			for (int k = 0; k < 10; k++)
				compute();
		}
	} else if (!strcmp(what, "writes")) {
		for (long part = 0; part < 64; part++) {
			for (long i = 0; i < first / 64; i++)
				word++;
			for (int i = 0; i < 8; i++)
				getppid();
		}
	} else if (!strcmp(what, "runs")) {
		for (double end = now() + first; now() < end;) {
			compute();
			getppid();
		}
		word = 1;
		getppid();
	} else if (!strcmp(what, "once")) {
		word = 1;
		for (long i = 0; i < first * 8; i++) {
			compute();
			compute();
			getppid();
		}
	}
	return 0;
}
