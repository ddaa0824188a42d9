// Calls that bring in or send out some bytes, or ask for a file, thousands of times from the same instructions: by one thread and by several, with
// signals and cancellations in between, and into memory that goes away.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 400, LARGE = 50000 };

static volatile unsigned long came, heard;
static unsigned long sum;

static void add(unsigned long *mine, const void *bytes, long n)
{
	for (long i = 0; i < n; i++)
		*mine = *mine * 31 + ((const unsigned char *)bytes)[i];
}

static void must(int good, const char *what)
{
	if (!good) {
		perror(what);
		exit(1);
	}
}

// What the kernel gives is another in each run: how much of it a reader finds at once, and when.
static void one_round(int in, int out, int epoll, int round, unsigned long *mine)
{
	char bytes[600], more[20];
	struct iovec both[2] = {{bytes, 100}, {more, sizeof more}};
	struct msghdr message = {.msg_iov = both, .msg_iovlen = 2};
	struct epoll_event events[8];
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	memset(bytes, (int)now.tv_nsec, sizeof bytes);
	memset(more, round, sizeof more);
	must(write(out, bytes, 1 + round % sizeof bytes) > 0, "write");
	must(send(out, bytes, 10, 0) == 10, "send");
	must(writev(out, both, 2) == 120, "writev");
	must(sendmsg(out, &message, 0) == 120, "sendmsg");
	must(epoll_wait(epoll, events, 8, -1) == 1, "epoll_wait");
	add(mine, &events[0].data.fd, sizeof(int));
	long left = 1 + round % (long)sizeof bytes + 10 + 120 + 120;
	for (int i = 0; left; i++) {
		long n = i % 2 ? read(in, bytes, sizeof bytes) : recv(in, bytes, 64, 0);
		if (n < 0 && errno == EINTR)
			continue;
		must(n > 0, "read");
		add(mine, bytes, n);
		left -= n;
	}
	must(recv(in, bytes, sizeof bytes, MSG_DONTWAIT) == -1 && errno == EAGAIN, "nothing");
	struct stat of[3];
	int copy = dup(in);
	must(copy >= 0 && !fstat(copy, &of[0]) && !stat("/tmp", &of[1]) && !fstatat(AT_FDCWD, ".", &of[2], 0), "stat");
	must(fstatat(AT_FDCWD, "/none/such", &of[0], 0) == -1 && errno == ENOENT, "none such");
	must(!close(copy) && close(60000) == -1 && errno == EBADF, "close");
	add(mine, &of[0].st_ino, sizeof of[0].st_ino);
	add(mine, &of[1].st_mtim, sizeof of[1].st_mtim);
}

static void *work(void *rounds)
{
	int pair[2], epoll = epoll_create1(0);
	unsigned long mine = 0;
	must(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair) && epoll >= 0, "socketpair");
	struct epoll_event wanted = {.events = EPOLLIN, .data.fd = pair[0]};
	must(!epoll_ctl(epoll, EPOLL_CTL_ADD, pair[0], &wanted), "epoll_ctl");
	for (int round = 0; round < (int)(long)rounds; round++)
		one_round(pair[0], pair[1], epoll, round, &mine);
	close(pair[0]), close(pair[1]), close(epoll);
	__atomic_fetch_add(&sum, mine, __ATOMIC_RELAXED);
	return NULL;
}

// Large pieces, so that chunks of the log end at every place in a call.
static int large_pipe[2];

static void *fill(void *unused)
{
	char *bytes = malloc(LARGE);
	for (int i = 0; i < 60; i++) {
		memset(bytes, i, LARGE);
		must(write(large_pipe[1], bytes, LARGE - 700 * i) == LARGE - 700 * i, "write");
	}
	close(large_pipe[1]);
	free(bytes);
	return unused;
}

static void large(void)
{
	pthread_t other;
	unsigned long mine = 0, pieces = 0, total = 0;
	char *bytes = malloc(LARGE);
	must(!pipe(large_pipe), "pipe");
	pthread_create(&other, NULL, fill, NULL);
	for (long n; (n = read(large_pipe[0], bytes, 3000 + pieces * 517 % 40000)) > 0; pieces++, total += n)
		add(&mine, bytes, n);
	pthread_join(other, NULL);
	close(large_pipe[0]);
	free(bytes);
	printf("large: %lu bytes, %s\n", total, pieces ? "in pieces" : "none");
	sum += mine + pieces;
}

static void on_alarm(int sig)
{
	(void)sig;
	came++;
	heard = heard * 31 + sum;
}

static void interrupted(int flags)
{
	struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
	struct sigaction action = {.sa_handler = on_alarm, .sa_flags = flags};
	int pair[2], ended = 0;
	char byte;
	pthread_t other;
	must(!pipe(pair), "pipe");
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	pthread_create(&other, NULL, work, (void *)50L); // the signals are for both
	while (came < 40) {
		must(write(pair[1], "x", 1) == 1 || errno == EINTR, "write");
		ended += read(pair[0], &byte, 1) == -1;
		if (flags)
			continue;
		struct epoll_event event;
		int epoll = epoll_create1(0);
		ended += epoll_wait(epoll, &event, 1, 1) == -1;
		close(epoll);
	}
	setitimer(ITIMER_REAL, &never, NULL);
	pthread_join(other, NULL);
	close(pair[0]), close(pair[1]);
	sum = sum * 31 + ended + heard;
	came = 0;
}

static int quiet[2];

static void *wait_in_vain(void *how)
{
	char bytes[100];
	struct epoll_event events[4];
	unsigned long turns = 0;
	if (how)
		epoll_wait(quiet[1], events, 4, -1);
	else
		while (read(quiet[0], bytes, sizeof bytes) != 0)
			turns++;
	return (void *)turns;
}

static void canceled(void)
{
	int good = 0;
	int ends[2];
	must(!pipe(ends), "pipe");
	quiet[0] = ends[0], quiet[1] = epoll_create1(0);
	for (int i = 0; i < 60; i++) {
		pthread_t other;
		void *result;
		pthread_create(&other, NULL, wait_in_vain, (void *)(long)(i % 2));
		for (int n = 0; n < i % 7; n++)
			sched_yield();
		if (i % 2 == 0)
			must(write(ends[1], "yes", 3) == 3, "write");
		pthread_cancel(other);
		pthread_join(other, &result);
		good += result == PTHREAD_CANCELED;
	}
	close(ends[0]), close(ends[1]), close(quiet[1]);
	printf("canceled: %d\n", good);
}

// What could be written once is asked about again when it may have changed.
static void places(void)
{
	int pair[2], file = open(".", O_TMPFILE | O_RDWR, 0600), found[8], n = 0;
	char *room = mmap(NULL, 0x2000, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(!socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) && room != MAP_FAILED && file >= 0, "places");
	must(!ftruncate(file, 0x1000), "ftruncate");
	char *shown = mmap(NULL, 0x1000, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	for (int round = 0; round < 8; round++) {
		char *at = round < 5 ? room + 0x800 : shown;
		must(write(pair[1], "0123456789", 10) == 10, "write");
		if (round == 1)
			mprotect(room, 0x1000, PROT_READ);
		if (round == 2)
			mprotect(room, 0x1000, PROT_READ | PROT_WRITE);
		if (round == 3)
			munmap(room, 0x1000);
		if (round == 4)
			must(mmap(room, 0x1000, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == room, "mmap");
		if (round == 6)
			must(!ftruncate(file, 0), "ftruncate");
		if (round == 7)
			must(!ftruncate(file, 0x1000), "ftruncate");
		long got = read(pair[0], at, 600);
		found[n++] = got == -1 ? -errno : (int)got;
	}
	long cut = (must(write(pair[1], "0123456789", 10) == 10, "write"), recv(pair[0], room, 3, MSG_TRUNC));
	printf("places:");
	for (int i = 0; i < n; i++)
		printf(" %d", found[i]);
	printf(", cut %ld\n", cut);
	close(pair[0]), close(pair[1]), close(file);
}

int main(int argc, char **argv)
{
	pthread_t other[3];
	int simple = argc > 1 && !strcmp(argv[1], "simple");
	work((void *)(long)ROUNDS);
	for (int i = 0; i < 3; i++)
		pthread_create(&other[i], NULL, work, (void *)(long)ROUNDS);
	for (int i = 0; i < 3; i++)
		pthread_join(other[i], NULL);
	if (!simple) {
		pthread_create(&other[0], NULL, work, (void *)(long)ROUNDS);
		places();
		large();
		canceled();
		pthread_join(other[0], NULL);
		interrupted(0);
		interrupted(SA_RESTART);
	}
	printf("%lx\n", sum);
	return 0;
}
