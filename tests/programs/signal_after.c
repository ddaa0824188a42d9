// A signal that ends a wait, and right behind its handler another wait, which only its own alarm may end.
// Runs in: tests/signals.
// May call: the kernel.
// Owns: nothing.
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
#include <unistd.h>

static volatile sig_atomic_t count;

static void handler(int number)
{
	count += number == SIGALRM;
}

int main(void)
{
	struct sigaction act = {.sa_handler = handler};
	struct itimerval soon = {.it_value = {0, 5000}}, late = {.it_value = {0, 60000}};
	sigaction(SIGALRM, &act, NULL);
	setitimer(ITIMER_REAL, &soon, NULL);
	int first = pause(), after_first = count;
	setitimer(ITIMER_REAL, &late, NULL);
	int second = pause();
	printf("%d %d %d %d\n", first, after_first, second, count);
	return 0;
}
