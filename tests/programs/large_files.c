// Reads or maps a large file in one of the ways that programs have, changes it perhaps, and prints what it saw.
// Usage: large_files WAY FILE [OTHER]
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 4
#define PIECE 0x10000

static const char *path;
static int shared_fd;
static off_t size;
char place[PIECE]; // where it is watched
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t sum(uint64_t hash, const void *data, size_t n)
{
	const unsigned char *p = data;
	for (size_t i = 0; i < n; i++)
		hash = (hash ^ p[i]) * 1099511628211u;
	return hash;
}

static int must(int ret)
{
	if (ret < 0) {
		perror("large_files");
		exit(1);
	}
	return ret;
}

static int opened(void)
{
	struct stat st;
	int fd = must(open(path, O_RDONLY));
	must(fstat(fd, &st));
	size = st.st_size;
	return fd;
}

static uint64_t through(int fd, size_t piece)
{
	char *buffer = malloc(piece);
	uint64_t hash = 1;
	for (ssize_t n; (n = must(read(fd, buffer, piece))) > 0;)
		hash = sum(hash, buffer, n);
	free(buffer);
	return hash;
}

static uint64_t whole(size_t piece)
{
	int fd = opened();
	uint64_t hash = through(fd, piece);
	close(fd);
	return hash;
}

static uint64_t mapped(int prot, int flags)
{
	int fd = opened();
	if (!size)
		return 0;
	unsigned char *p = mmap(NULL, size, prot, flags, fd, 0);
	if (p == MAP_FAILED)
		must(-1);
	close(fd);
	if (prot & PROT_WRITE)
		memset(p + 5000, 'w', 5000);
	uint64_t hash = sum(1, p, size);
	munmap(p, size);
	return hash;
}

static uint64_t vectors(void)
{
	static char a[5000], b[PIECE], c[1];
	struct iovec iov[] = {{a, sizeof a}, {b, sizeof b}, {c, sizeof c}};
	uint64_t hash = 1;
	int fd = opened();
	for (off_t at = 0; at < size; at += 3 * PIECE) {
		must(preadv(fd, iov, 3, at));
		hash = sum(sum(sum(hash, a, sizeof a), b, sizeof b), c, sizeof c);
		must(pread(fd, b, sizeof b, size - PIECE - at / 2));
		hash = sum(hash, b, sizeof b);
		must(readv(fd, iov, 2));
		hash = sum(sum(hash, a, sizeof a), b, sizeof b);
	}
	close(fd);
	return hash;
}

// Of what several threads read from one place on, each byte is read once, by whom is chance.
static void *reader(void *arg)
{
	static uint64_t total;
	char buffer[PIECE];
	for (ssize_t n; (n = must(read(shared_fd, buffer, sizeof buffer))) > 0;) {
		uint64_t own = sum(1, buffer, n);
		pthread_mutex_lock(&lock);
		total = total * 31 + own;
		pthread_mutex_unlock(&lock);
	}
	pthread_mutex_lock(&lock);
	*(uint64_t *)arg = total;
	pthread_mutex_unlock(&lock);
	return NULL;
}

static void *part(void *arg)
{
	uint64_t number = *(uint64_t *)arg, from = size / THREADS * number;
	char buffer[PIECE];
	unsigned char *p = mmap(NULL, size, PROT_READ, MAP_SHARED, shared_fd, 0);
	if (p == MAP_FAILED)
		must(-1);
	uint64_t hash = sum(1, p + from, size / THREADS);
	for (off_t at = from; at < (off_t)from + PIECE * 4; at += PIECE)
		hash = sum(hash, buffer, must(pread(shared_fd, buffer, PIECE, at)));
	*(uint64_t *)arg = hash;
	return NULL;
}

static uint64_t threads(void *(*run)(void *))
{
	pthread_t id[THREADS];
	uint64_t value[THREADS], hash = 1;
	shared_fd = opened();
	for (int i = 0; i < THREADS; i++) {
		value[i] = i;
		pthread_create(&id[i], NULL, run, &value[i]);
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(id[i], NULL);
		hash = hash * 31 + value[i];
	}
	close(shared_fd);
	return hash;
}

static void write_some(const char *name, int flags, size_t bytes)
{
	char buffer[PIECE];
	int fd = must(open(name, O_WRONLY | flags, 0600));
	memset(buffer, 'x', sizeof buffer);
	for (size_t at = 0; at < bytes; at += sizeof buffer)
		must(write(fd, buffer, sizeof buffer));
	close(fd);
}

static uint64_t in_place(void)
{
	int fd = opened();
	uint64_t hash = 1;
	for (ssize_t n; (n = must(read(fd, place, sizeof place))) > 0;)
		hash = sum(hash, place, n);
	close(fd);
	return hash;
}

static int is(const char *way, const char *name)
{
	return strcmp(way, name) == 0;
}

int main(int argc, char **argv)
{
	const char *way = argv[1], *other = argc > 3 ? argv[3] : NULL;
	path = argv[2];
	uint64_t before = 0;
	char text[300];
	if (is(way, "read"))
		before = whole(PIECE);
	else if (is(way, "small"))
		before = whole(4096);
	else if (is(way, "input"))
		before = through(0, PIECE);
	else if (is(way, "vectors"))
		before = vectors();
	else if (is(way, "map"))
		before = mapped(PROT_READ, MAP_PRIVATE);
	else if (is(way, "private"))
		before = mapped(PROT_READ | PROT_WRITE, MAP_PRIVATE);
	else if (is(way, "shared"))
		before = mapped(PROT_READ, MAP_SHARED);
	else if (is(way, "readers"))
		before = threads(reader);
	else if (is(way, "parts"))
		before = threads(part);
	else if (is(way, "library") || is(way, "library first")) {
		if (is(way, "library"))
			must(system("true"));
		void *loaded = dlopen(path, RTLD_NOW);
		const unsigned char *data = loaded ? dlsym(loaded, "data") : NULL;
		if (!data)
			must(-1);
		before = sum(1, data, 0x200000);
		must(system("true"));
	} else if (is(way, "place"))
		before = in_place();
	else if (is(way, "made"))
		write_some(path, O_CREAT | O_TRUNC, 0x200000);
	else
		before = whole(PIECE) + mapped(PROT_READ, MAP_PRIVATE);
	printf("%lx\n", before);
	if (is(way, "rewrite"))
		write_some(path, 0, PIECE);
	else if (is(way, "empty"))
		write_some(path, O_TRUNC, 0);
	else if (is(way, "shorten"))
		must(truncate(path, 0x180000));
	else if (is(way, "remove"))
		must(unlink(path));
	else if (is(way, "over"))
		must(rename(other, path));
	else if (is(way, "away"))
		must(rename(path, other));
	else if (is(way, "rights"))
		must(chmod(path, 0640));
	else if (is(way, "times"))
		must(utimensat(AT_FDCWD, path, NULL, 0));
	else if (is(way, "folder")) {
		snprintf(text, sizeof text, "%s-moved", other);
		must(rename(other, text));
		return 0;
	} else if (is(way, "child")) {
		if (!fork()) {
			write_some(path, 0, PIECE);
			_exit(0);
		}
		wait(NULL);
	} else if (is(way, "shell")) {
		snprintf(text, sizeof text, "echo more >>%s", path);
		if (system(text))
			return 1;
	} else if (is(way, "waits")) { // until somebody says so
		puts("waiting");
		fflush(stdout);
		if (getchar() == EOF)
			return 1;
	} else if (!is(way, "made") && !is(way, "twice")) {
		return 0;
	}
	if (is(way, "remove") || is(way, "away"))
		return 0;
	printf("%lx\n", whole(PIECE));
	printf("%lx\n", mapped(PROT_READ, MAP_PRIVATE));
	return 0;
}
