// A handler that another thread takes away while its signal is under way; natively different: how many signals it sees.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define ROUNDS 1000

static pthread_t reader;
static volatile sig_atomic_t seen;

static void handler(int sig)
{
	(void)sig;
	seen++;
}

static void *take_away(void *end)
{
	char c = 1;
	struct sigaction act = {.sa_handler = handler, .sa_flags = SA_RESTART}, ignored = {.sa_handler = SIG_IGN};
	for (int i = 1; i <= ROUNDS; i++) {
		sigaction(SIGUSR2, &act, NULL);
		pthread_kill(reader, SIGUSR2);
		sigaction(SIGUSR2, &ignored, NULL);
		if (i % 10 == 0 && write(*(int *)end, &c, 1) != 1)
			exit(1);
	}
	close(*(int *)end);
	return NULL;
}

int main(void)
{
	pthread_t other;
	int ends[2], good = 0;
	ssize_t n;
	char c;
	if (pipe(ends))
		return 1;
	reader = pthread_self();
	pthread_create(&other, NULL, take_away, &ends[1]);
	while ((n = read(ends[0], &c, 1)) == 1)
		good += c;
	pthread_join(other, NULL);
	printf("%d good, end %zd, %d seen\n", good, n, seen);
	return 0;
}
