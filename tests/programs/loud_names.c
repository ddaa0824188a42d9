// Two threads whose names a terminal would obey, and that are no text.
// Runs in: tests/confine.
// May call: pthreads, the kernel.
// Owns: nothing.
#include <pthread.h>
#include <sys/prctl.h>

int changes;

static void *work(void *unused)
{
	prctl(PR_SET_NAME, "\033[7m\xff<&\"");
	changes++;
	return unused;
}

int main(void)
{
	pthread_t thread;
	prctl(PR_SET_NAME, "\033]2;a title\007");
	pthread_create(&thread, 0, work, 0);
	pthread_join(thread, 0);
	changes++;
	return 0;
}
