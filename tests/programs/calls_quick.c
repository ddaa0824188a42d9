// Small reads and writes in one thread, again and again, so that they take the short way: every length and error, and signals
// around them. `fixed`: the same in every run; `random`: how many signals fall where is not.
// Runs in: a program of its own, natively, recorded and replayed.
// May call: libc.
// Owns: nothing.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <unistd.h>

static int way[2];
static volatile sig_atomic_t seen, writes, jumps;
static sigjmp_buf out;
static char buffer[2048];
static char *volatile nowhere = (char *)16;

static void handler(int sig)
{
	seen += sig;
	if (writes)
		writes -= write(way[1], "x", 1) == 1;
	if (jumps)
		siglongjmp(out, 1);
}

static void on(int sig, int flags)
{
	struct sigaction act = {.sa_handler = handler, .sa_flags = flags};
	sigaction(sig, &act, NULL);
	seen = 0;
}

static void tell(const char *what, long result)
{
	int error = result < 0 ? errno : 0;
	printf("%s: %ld, %s, signals %d\n", what, result, error ? strerror(error) : "no error", seen);
}

static void soon(void)
{
	struct itimerval once = {.it_value = {0, 20000}};
	setitimer(ITIMER_REAL, &once, NULL);
}

// Behind these all sites of the library are jumps.
static void warm(void)
{
	char c = 0;
	for (int i = 0; i < 400; i++)
		if (write(way[1], &c, 1) != 1 || read(way[0], &c, 1) != 1)
			abort();
}

static void lengths(void)
{
	static const unsigned each[] = {0, 1, 7, 8, 9, 64, 255, 256, 257, 511, 512, 513, 1000};
	unsigned sum = 0;
	for (unsigned i = 0; i < sizeof each / sizeof *each; i++) {
		for (unsigned n = 0; n < each[i]; n++)
			buffer[n] = (char)(n * 7 + i);
		long wrote = write(way[1], buffer, each[i]);
		memset(buffer, 0, sizeof buffer);
		long got = read(way[0], buffer, each[i]);
		for (int n = 0; n < (int)sizeof buffer; n++)
			sum = sum * 31 + (unsigned char)buffer[n];
		printf("%u: %ld %ld %x\n", each[i], wrote, got, sum);
	}
}

static void errors(void)
{
	char *last = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t count = 3;
	int pair[2], event = eventfd(2, EFD_NONBLOCK), timer = timerfd_create(CLOCK_MONOTONIC, 0);
	struct itimerspec at = {.it_value = {0, 1000000}};
	munmap(last + 4096, 4096);
	tell("read to nowhere", write(way[1], "ab", 2) == 2 ? read(way[0], nowhere, 2) : 0);
	tell("what it left", read(way[0], buffer, 64));
	tell("write from nowhere", write(way[1], nowhere, 2));
	tell("write over an edge", write(way[1], last + 4090, 20));
	tell("write in front of it", write(way[1], last + 4090, 6));
	tell("read in front of it", read(way[0], last + 4090, 64));
	tell("no descriptor", read(77, buffer, 1));
	tell("the wrong end", read(way[1], buffer, 1));
	tell("the other wrong end", write(way[0], buffer, 1));
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair))
		abort();
	tell("nothing there", read(pair[0], buffer, 64));
	long all = 0, n;
	while ((n = write(pair[1], buffer, 300)) > 0)
		all += n;
	tell("full", n);
	while ((n = read(pair[0], buffer, 300)) > 0)
		all -= n;
	printf("left %ld\n", all);
	close(pair[1]);
	tell("end", read(pair[0], buffer, 300));
	tell("event", read(event, &count, sizeof count));
	printf("of %lu\n", (unsigned long)count);
	tell("no event", read(event, &count, sizeof count));
	tell("too short", read(event, &count, 4));
	timerfd_settime(timer, 0, &at, NULL);
	tell("timer", read(timer, &count, sizeof count));
	fflush(stdout);
}

static void signals(void)
{
	int broken[2];
	if (pipe(broken))
		abort();
	close(broken[0]);
	on(SIGPIPE, 0);
	tell("broken", write(broken[1], "x", 1)); // the handler has run by then
	on(SIGALRM, 0);
	soon();
	tell("interrupted", read(way[0], buffer, 64));
	on(SIGALRM, SA_RESTART);
	writes = 1;
	soon();
	tell("restarted", read(way[0], buffer, 64));
	writes = 0;
	on(SIGALRM, 0);
	jumps = 1;
	if (!sigsetjmp(out, 1)) {
		soon();
		tell("never", read(way[0], buffer, 64));
	}
	jumps = 0;
	tell("left", write(way[1], "abc", 3));
	tell("as ever", read(way[0], buffer, 64));
}

static void at_random(void)
{
	struct itimerval every = {{0, 300}, {0, 300}};
	long interrupted = 0, got = 0, turns = 0;
	on(SIGALRM, 0);
	setitimer(ITIMER_REAL, &every, NULL);
	while (seen < 200 * SIGALRM) {
		char c = (char)turns;
		if (turns++ % 3) {
			writes = 1; // the handler ends the wait
			long n = read(way[0], buffer, 8);
			got = got * 31 + n;
			interrupted += n < 0 && errno == EINTR;
			writes = 0;
		} else {
			for (int i = 0, before = seen; i < 500; i++, got = got * 31 + (seen - before) * i, before = seen)
				if (write(way[1], &c, 1) != 1 || (read(way[0], buffer, 1) != 1 && errno != EINTR))
					abort();
		}
	}
	every = (struct itimerval){{0, 0}, {0, 0}};
	setitimer(ITIMER_REAL, &every, NULL);
	printf("turns %ld, got %lx, interrupted %ld\n", turns, got, interrupted);
}

int main(int argc, char **argv)
{
	if (argc != 2 || pipe(way))
		return 2;
	warm();
	if (!strcmp(argv[1], "random")) {
		at_random();
		return 0;
	}
	lengths();
	errors();
	signals();
	return 0;
}
