// System calls for `catch syscall`: of two threads, one that waits, one that a signal ends, one begun anew behind a handler.
// Runs in: tests/gdb.
// May call: the kernel.
// Owns: nothing.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static int ends[2];
static volatile sig_atomic_t handled;

static void handler(int number)
{
	handled |= number;
}

static void *reader(void *arg)
{
	char text[8];
	return read(ends[0], text, sizeof text) == 3 ? arg : NULL;
}

static void *late(void *arg)
{
	usleep(20000);
	pthread_kill(*(pthread_t *)arg, SIGUSR1);
	do
		usleep(20000);
	while (!handled);
	return write(ends[1], "def", 3) == 3 ? arg : NULL;
}

int main(void)
{
	struct sigaction again = {.sa_handler = handler, .sa_flags = SA_RESTART}, once = {.sa_handler = handler};
	pthread_t thread, self = pthread_self();
	void *found;
	char text[8];
	if (pipe(ends))
		return 1;
	pthread_create(&thread, NULL, reader, &found);
	usleep(20000);
	if (write(ends[1], "abc", 3) != 3)
		return 2;
	pthread_join(thread, &found);
	printf("read by a thread: %d\n", found != NULL);
	sigaction(SIGUSR1, &again, NULL);
	pthread_create(&thread, NULL, late, &self);
	printf("read behind a handler: %zd\n", read(ends[0], text, sizeof text));
	pthread_join(thread, NULL);
	sigaction(SIGALRM, &once, NULL);
	ualarm(20000, 20000); // the first may come before the call
	pause();
	ualarm(0, 0);
	printf("handled %d, pid %d\n", handled, getpid() > 0);
	return 0;
}
