// Four threads write single characters to one stream, and read them back: who finds which, and that none is lost.
#include <pthread.h>
#include <stdio.h>

#define THREADS 4
#define ROUNDS 5000

static FILE *stream;
static char all[THREADS * ROUNDS + 1];
static unsigned long found[THREADS];

static pthread_barrier_t together;

static void *write_and_read(void *arg)
{
	long me = (long)arg;
	pthread_barrier_wait(&together);
	for (int i = 0; i < ROUNDS; i++)
		putc('0' + (int)me, stream);
	pthread_barrier_wait(&together);
	if (me == 0)
		rewind(stream);
	pthread_barrier_wait(&together);
	for (int c; (c = getc(stream)) != EOF;)
		found[me] = found[me] * 31 + (unsigned long)c;
	return NULL;
}

int main(void)
{
	pthread_t threads[THREADS];
	stream = tmpfile();
	setvbuf(stream, all, _IOFBF, sizeof all);
	pthread_barrier_init(&together, NULL, THREADS);
	for (long i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, write_and_read, (void *)i);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("%ld characters\n", ftell(stream));
	for (int i = 0; i < THREADS; i++)
		printf("thread %d: %016lx\n", i, found[i]);
	return 0;
}
