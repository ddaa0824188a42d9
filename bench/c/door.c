// What one system call costs: one measurement a run, `door WHAT [real] ROUNDS`; prints nanoseconds a round.
// Runs in: a program of its own, natively and recorded, driven by bench/door.py.
// May call: libc.
// Owns: nothing.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static char buffer[1 << 20];
static int ping[2], pong[2];
static long rounds;
static int real;

static double at(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

// The processor's time: what else runs on the machine is not counted. What a tracer does for this process is not, either:
// `real` is for that, and no call of the vDSO, whose rdtscp not every recorder knows.
static double now(void)
{
	struct timespec t;
	if (!real)
		return at(CLOCK_PROCESS_CPUTIME_ID);
	syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

static void *answer(void *unused)
{
	char c;
	for (long i = 0; i < rounds; i++)
		if (read(ping[0], &c, 1) != 1 || write(pong[1], &c, 1) != 1)
			abort();
	return unused;
}

static double getppid_rounds(void)
{
	double start = now();
	for (long i = 0; i < rounds; i++)
		getppid();
	return now() - start;
}

static double clock_rounds(void)
{
	struct timespec t;
	double start = now();
	for (long i = 0; i < rounds; i++)
		clock_gettime(CLOCK_MONOTONIC, &t);
	return now() - start;
}

// Only the reads are timed: 1024 of 64 bytes from a pipe that was filled by one write.
static double read_rounds(void)
{
	double sum = 0;
	for (long i = 0; i < rounds; i += 1024) {
		if (write(ping[1], buffer, 1 << 16) != 1 << 16)
			abort();
		double start = now();
		for (int n = 0; n < 1024; n++)
			if (read(ping[0], buffer, 64) != 64)
				abort();
		sum += now() - start;
	}
	return sum;
}

static double open_rounds(void)
{
	double start = now();
	for (long i = 0; i < rounds; i++)
		close(open("/dev/null", O_RDONLY));
	return now() - start;
}

// A round is 1 MiB.
static double large_rounds(void)
{
	char name[] = "/tmp/gdbrr-bench-XXXXXX";
	int fd = mkstemp(name);
	unlink(name);
	memset(buffer, 1, sizeof buffer);
	if (write(fd, buffer, sizeof buffer) != sizeof buffer)
		abort();
	double start = now();
	for (long i = 0; i < rounds; i++)
		if (pread(fd, buffer, sizeof buffer, 0) != sizeof buffer)
			abort();
	return now() - start;
}

static double threads_rounds(void)
{
	pthread_t other;
	char c = 0;
	double start = at(CLOCK_MONOTONIC);
	pthread_create(&other, NULL, answer, NULL);
	for (long i = 0; i < rounds; i++)
		if (write(ping[1], &c, 1) != 1 || read(pong[0], &c, 1) != 1)
			abort();
	pthread_join(other, NULL);
	return at(CLOCK_MONOTONIC) - start;
}

// Two calls a round, in one thread.
static double alone_rounds(void)
{
	char c = 0;
	double start = now();
	for (long i = 0; i < rounds; i++)
		if (write(ping[1], &c, 1) != 1 || read(ping[0], &c, 1) != 1)
			abort();
	return now() - start;
}

static double counter_rounds(void)
{
	double start = now();
	for (long i = 0; i < rounds; i++)
		__builtin_ia32_rdtsc();
	return now() - start;
}

static double compute_rounds(void)
{
	double start = now();
	volatile unsigned x = 1;
	for (long i = 0; i < rounds; i++)
		x = x * 1664525 + 1013904223;
	return now() - start;
}

int main(int argc, char **argv)
{
	static const struct { const char *name; double (*run)(void); } all[] = {
		{"getppid", getppid_rounds}, {"clock", clock_rounds},     {"read", read_rounds},   {"open", open_rounds},
		{"large", large_rounds},     {"threads", threads_rounds}, {"alone", alone_rounds}, {"compute", compute_rounds},
		{"counter", counter_rounds},
	};
	real = argc == 4 && strcmp(argv[2], "real") == 0;
	if (argc != 3 + real || pipe(ping) || pipe(pong))
		return 2;
	rounds = atol(argv[2 + real]);
	for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
		if (strcmp(all[i].name, argv[1]) == 0)
			printf("%.2f\n", all[i].run() / rounds);
	return 0;
}
