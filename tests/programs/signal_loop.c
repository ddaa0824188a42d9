// A loop that comes to no operation until a signal ends it; natively different: how far it came. The argument chooses the
// loop. The timer is one of processor time, so that a busy machine does not send the signal in front of the loop.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

static volatile sig_atomic_t stop;
static volatile unsigned long count;
static unsigned long table[1024];

static void handler(int sig)
{
	(void)sig;
	stop++;
}

// xorshift: honest work, nothing of it repeats.
static unsigned long mix(unsigned long x)
{
	x ^= x << 13;
	x ^= x >> 7;
	return x ^ x << 17;
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "memory";
	struct itimerval once = {{0, 0}, {0, 60000}};
	unsigned long n = 0, x = 88172645463325252UL;
	double d = 0;
	signal(SIGPROF, handler);
	if (!strcmp(how, "alarm")) {
		signal(SIGALRM, handler);
		alarm(1);
	} else {
		setitimer(ITIMER_PROF, &once, NULL);
	}
	if (!strcmp(how, "memory") || !strcmp(how, "alarm")) {
		while (!stop)
			count++;
	} else if (!strcmp(how, "register")) {
		register unsigned long r __asm__("rbx") = 0;
		while (!stop)
			__asm__ volatile("inc %0" : "+r"(r));
		n = r;
	} else if (!strcmp(how, "spin")) {
		while (!stop)
			;
	} else if (!strcmp(how, "work")) {
		while (!stop) {
			x = mix(x);
			table[x & 1023] += x;
			n++;
		}
	} else if (!strcmp(how, "nested")) {
		while (!stop) {
			for (int i = 0; i < 100 && !stop; i++)
				count += i ^ (n & 3);
			n++;
		}
	} else if (!strcmp(how, "float")) {
		while (!stop)
			d += 1.5;
	} else if (!strcmp(how, "down")) {
		for (count = -1UL; !stop; count -= 3)
			;
	}
	for (int i = 0; i < 1024; i++)
		x = x * 31 + table[i];
	printf("%s %lu %lu %lu %f\n", how, count, n, x, d);
	return 0;
}
