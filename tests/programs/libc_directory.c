// Four threads read one directory: who finds which of its entries.
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define THREADS 4
#define FILES 200

static DIR *directory;
static int found[THREADS];
static unsigned long sums[THREADS];

static pthread_barrier_t together;

static void *look(void *arg)
{
	int me = (int)(long)arg;
	pthread_barrier_wait(&together);
	for (const struct dirent *entry; (entry = readdir(directory)); found[me]++)
		sums[me] = sums[me] * 31 + (unsigned long)entry->d_off;
	return NULL;
}

int main(void)
{
	char name[64], place[] = "/tmp/libc_directory.XXXXXX";
	pthread_t threads[THREADS];
	if (!mkdtemp(place) || chdir(place))
		return 1;
	for (int i = 0; i < FILES; i++) {
		snprintf(name, sizeof name, "%d", i);
		close(open(name, O_CREAT | O_WRONLY, 0600));
	}
	directory = opendir(".");
	pthread_barrier_init(&together, NULL, THREADS);
	for (long i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, look, (void *)i);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	closedir(directory);
	for (int i = 0; i < FILES; i++) {
		snprintf(name, sizeof name, "%d", i);
		unlink(name);
	}
	rmdir(place);
	for (int i = 0; i < THREADS; i++)
		printf("thread %d: %d entries, %016lx\n", i, found[i], sums[i]);
	return 0;
}
