// Signals at call sites that are rewritten under way: one moves what follows the call, the other the number in front of it.
// Handlers that return behind a call, in front of it, into a call that is made again; natively different: how many there are.
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

// long NAME(long a, long b, long c): the registers that a call keeps are checked with sums.
#define SITE(name, before, after) \
	__asm__(".text\n.type " #name ", @function\n" #name ":\n.cfi_startproc\n" before "\n" #name "_at: syscall\n" after \
		"\n.cfi_endproc\n.size " #name ", .-" #name "\n.balign 16\n"); \
	extern const unsigned char name##_at[]; \
	long name(long a, long b, long c)

#define BEHIND "cmp $-4096, %rax\nja 1f\nret\n1: neg %rax\nneg %rax\nret"
SITE(read_forward, "xor %eax, %eax", BEHIND);
SITE(read_backward, "mov $0, %eax", BEHIND);
SITE(kill_forward, "push $62\npop %rax", BEHIND);
SITE(kill_backward, "mov $62, %eax", BEHIND);
SITE(getppid_forward, "push $110\npop %rax", BEHIND);

static const struct {
	const char *name;
	long (*read)(long, long, long), (*kill)(long, long, long);
	const unsigned char *read_at, *kill_at;
	int back;
} sites[] = {
	{"forward", read_forward, kill_forward, read_forward_at, kill_forward_at, 0},
	{"backward", read_backward, kill_backward, read_backward_at, kill_backward_at, 5},
};

static volatile sig_atomic_t seen, behind, in_front, forks, elsewhere;
static const unsigned char *expected;
static volatile long turn, turns;
static const char *volatile nowhere = (const char *)16;

static void handler(int sig, siginfo_t *info, void *context)
{
	const unsigned char *pc = (const unsigned char *)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
	(void)sig;
	(void)info;
	seen++;
	behind += pc == expected + 2;
	in_front += pc == expected;
	elsewhere += pc != expected + 2 && pc != expected;
	turns += turn;
	getppid_forward(0, 0, 0);
	if (forks && seen % 40 == 0 && fork() == 0)
		forks = -1; // this one returns from the handler in a process without the engine
}

static void on(int sig, int flags)
{
	struct sigaction act = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags};
	sigaction(sig, &act, NULL);
}

static int is_blind;

static const char *shape(const unsigned char *at)
{
	return is_blind ? "blind" : *at == 0xe9 ? "jump" : "as built";
}

// A signal behind each call, which the handler returns to.
static void send(unsigned which)
{
	long wrong = 0;
	seen = behind = in_front = elsewhere = 0;
	expected = sites[which].kill_at;
	on(SIGUSR1, 0);
	for (int i = 0; i < 600; i++)
		wrong += sites[which].kill(getpid(), SIGUSR1, 0) != 0;
	printf("%s kill: %d behind of %d, %ld wrong, %s\n", sites[which].name, behind, seen, wrong,
	       shape(sites[which].kill_at - sites[which].back));
}

// Reads that wait and are interrupted, made again or not.
static void wait_for(unsigned which, int flags)
{
	struct itimerval every = {{0, 700}, {0, 700}}, none = {{0, 0}, {0, 0}};
	int ends[2], status;
	long errors = 0, good = 0, other = 0;
	char c;
	if (pipe(ends))
		exit(1);
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		for (int i = 0; i < 300; i++) {
			if (i % 4 == 0)
				usleep(2000);
			c = i;
			if (write(ends[1], &c, 1) != 1)
				_exit(1);
		}
		_exit(0);
	}
	close(ends[1]);
	seen = behind = in_front = elsewhere = 0;
	expected = sites[which].read_at;
	on(SIGALRM, flags);
	setitimer(ITIMER_REAL, &every, NULL);
	for (;;) {
		long n = sites[which].read(ends[0], (long)&c, 1);
		if (n == 0)
			break;
		if (n == 1)
			good += (unsigned char)c == (unsigned char)good;
		else if (n == -EINTR)
			errors++;
		else
			other++;
	}
	setitimer(ITIMER_REAL, &none, NULL);
	while (waitpid(child, &status, 0) < 0)
		;
	close(ends[0]);
	printf("%s read %s: %ld good, %ld other, %s; %d seen, %d behind, %d in front, %d elsewhere, %ld errors\n", sites[which].name,
	       flags ? "again" : "ended", good, other, shape(sites[which].read_at - sites[which].back), seen, behind, in_front, elsewhere,
	       errors);
}

// Children that are made in a handler return from it.
static void return_in_children(unsigned which)
{
	int status, good = 0;
	seen = behind = in_front = elsewhere = 0;
	forks = 1;
	expected = sites[which].kill_at;
	on(SIGUSR1, 0);
	fflush(stdout);
	for (int i = 0; i < 200; i++) {
		long ret = sites[which].kill(getpid(), SIGUSR1, 0);
		if (forks < 0) {
			struct sigaction act;
			long sum = 0;
			forks = 0;
			sigaction(SIGUSR1, NULL, &act);
			for (int n = 0; n < 300; n++)
				sum += sites[which].kill(getpid(), SIGUSR1, 0);
			_exit(ret == 0 && sum == 0 && act.sa_sigaction == handler ? seen % 40 == 20 ? 7 : 2 : 1);
		}
	}
	forks = 0;
	while (wait(&status) > 0)
		good += WEXITSTATUS(status) == 7;
	printf("%s children: %d\n", sites[which].name, good);
}

// Signals while the time is read, which takes no system call natively.
static void read_clock(void)
{
	struct itimerval every = {{0, 700}, {0, 700}}, none = {{0, 0}, {0, 0}};
	struct timespec now = {0, 0};
	seen = 0;
	on(SIGALRM, SA_RESTART);
	setitimer(ITIMER_REAL, &every, NULL);
	for (turn = 0; seen < 20; turn++)
		clock_gettime(CLOCK_MONOTONIC, &now);
	setitimer(ITIMER_REAL, &none, NULL);
	printf("clock: %ld turns, signals in %ld, %ld.%09ld\n", turn, turns, (long)now.tv_sec, now.tv_nsec);
}

// SIGSEGV is the engine's, too: sent while it is blocked it waits as any other, and calls with bad addresses fail as ever.
static void block_faults(void)
{
	sigset_t faults, before;
	int ends[2], early;
	seen = 0;
	on(SIGSEGV, 0);
	on(SIGBUS, 0);
	on(SIGUSR1, 0);
	sigemptyset(&faults);
	sigaddset(&faults, SIGSEGV);
	sigaddset(&faults, SIGBUS);
	sigaddset(&faults, SIGUSR1);
	if (pipe(ends))
		exit(1);
	sigprocmask(SIG_BLOCK, &faults, &before);
	for (int i = 0; i < 3; i++) { // one of a kind is kept
		kill(getpid(), SIGSEGV);
		kill(getpid(), SIGBUS);
		kill(getpid(), SIGUSR1);
	}
	errno = 0;
	ssize_t n = write(ends[1], nowhere, 8);
	early = seen;
	sigprocmask(SIG_SETMASK, &before, NULL);
	getppid();
	getppid();
	printf("faults: write %zd %d, %d early, %d late\n", n, errno, early, seen);
}

int main(int argc, char **argv)
{
	(void)argv;
	is_blind = argc > 1;
	setvbuf(stdout, NULL, _IOFBF, 65536);
	for (unsigned i = 0; i < 2; i++) {
		send(i);
		wait_for(i, 0);
		wait_for(i, SA_RESTART);
		wait_for(i, SA_RESTART);
		return_in_children(i);
	}
	read_clock();
	block_faults();
	return 0;
}
