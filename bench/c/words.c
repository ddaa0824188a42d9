// Counts words, as Phoenix does: `words WAY THREADS FILE`, where WAY is how the file comes in.
// Runs in: a program of its own, natively and recorded, driven by bench/large.py.
// May call: libc.
// Owns: nothing.
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST = 16, PIECE = 1 << 16 };

static const char *path;
static char *common;
static long threads, size, words[MOST][16];

static long count(const char *p, long n, int *in)
{
	long found = 0;
	for (long i = 0; i < n; i++) {
		int letter = p[i] > ' ';
		found += letter & !*in;
		*in = letter;
	}
	return found;
}

static int opened(void)
{
	struct stat st;
	int fd = open(path, O_RDONLY);
	if (fd < 0 || fstat(fd, &st))
		exit(1);
	size = st.st_size;
	return fd;
}

static char *mapped(void)
{
	int fd = opened();
	char *p = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (p == MAP_FAILED)
		exit(1);
	return p;
}

static void *part(void *arg)
{
	long me = (long)arg, from = size / threads * me, n = size / threads;
	int in = 0;
	const char *p = common ? common : mapped();
	words[me][0] = count(p + from, n, &in);
	return NULL;
}

static long of_all(void)
{
	pthread_t ids[MOST];
	long found = 0;
	for (long i = 0; i < threads; i++)
		pthread_create(&ids[i], NULL, part, (void *)i);
	for (long i = 0; i < threads; i++) {
		pthread_join(ids[i], NULL);
		found += words[i][0];
	}
	return found;
}

int main(int argc, char **argv)
{
	static char piece[PIECE];
	long found = 0;
	int in = 0;
	if (argc != 4)
		return 2;
	path = argv[3], threads = atol(argv[2]);
	if (threads < 1 || threads > MOST)
		return 2;
	if (!strcmp(argv[1], "read")) {
		int fd = opened();
		for (long n; (n = read(fd, piece, sizeof piece)) > 0;)
			found += count(piece, n, &in);
	} else if (!strcmp(argv[1], "stdio")) {
		FILE *file = fopen(path, "r");
		if (!file)
			return 1;
		for (long n; (n = fread(piece, 1, 1000, file)) > 0;)
			found += count(piece, n, &in);
	} else if (!strcmp(argv[1], "map")) {
		common = mapped();
		found = count(common, size, &in);
	} else {
		close(opened());
		common = strcmp(argv[1], "each") ? mapped() : NULL;
		found = of_all();
	}
	printf("%ld\n", found);
	return 0;
}
