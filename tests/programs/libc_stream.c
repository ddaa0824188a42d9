// Four threads print to one stream, with all that locks it: the order of the pieces.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define THREADS 4
#define LINES 400

static FILE *stream;

static pthread_barrier_t together;

static void *print(void *arg)
{
	int me = (int)(long)arg;
	pthread_barrier_wait(&together);
	for (int i = 0; i < LINES; i++) {
		switch (i % 5) {
		case 0:
			fprintf(stream, "%d:%d\n", me, i);
			break;
		case 1:
			fputs("abcdef\n" + me, stream);
			break;
		case 2:
			putc('0' + me, stream);
			break;
		case 3:
			flockfile(stream);
			putc_unlocked('<', stream);
			putc_unlocked('0' + me, stream);
			putc_unlocked('>', stream);
			funlockfile(stream);
			break;
		default:
			if (ftrylockfile(stream) == 0) {
				fwrite("try", 1, 3, stream);
				funlockfile(stream);
			}
		}
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[THREADS];
	char *text = NULL;
	size_t size = 0;
	unsigned long sum = 0;
	stream = open_memstream(&text, &size);
	pthread_barrier_init(&together, NULL, THREADS);
	for (long i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, print, (void *)i);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	fclose(stream);
	for (size_t i = 0; i < size; i++)
		sum = sum * 31 + (unsigned char)text[i];
	printf("%zu bytes, %016lx\n", size, sum);
	free(text);
	return 0;
}
