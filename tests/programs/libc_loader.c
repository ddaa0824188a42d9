// Three threads load libraries again and again: in which order the loader has them, where they lie.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>

#define THREADS 3

static const char *const names[] = {"libm.so.6", "libresolv.so.2", "libutil.so.1", "librt.so.1", "libanl.so.1", "libnss_files.so.2"};
#define NAMES (sizeof names / sizeof *names)

static unsigned long sums[THREADS], total;

static pthread_barrier_t together;

static void *load(void *arg)
{
	long me = (long)arg;
	pthread_barrier_wait(&together);
	for (unsigned i = 0; i < 30; i++) {
		void *library = dlopen(names[(i * (unsigned)(me + 1) + (unsigned)me) % NAMES], RTLD_NOW);
		const struct link_map *map = library;
		if (!library)
			continue;
		sums[me] = sums[me] * 31 + (unsigned long)map->l_addr;
		dlsym(library, "no_such_function");
		if ((i + (unsigned)me) % 3)
			dlclose(library);
	}
	return NULL;
}

static int note(struct dl_phdr_info *info, size_t size, void *data)
{
	(void)size;
	(void)data;
	total = total * 31 + (unsigned long)info->dlpi_addr;
	return 0;
}

int main(void)
{
	pthread_t threads[THREADS];
	pthread_barrier_init(&together, NULL, THREADS);
	for (long i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, load, (void *)i);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	dl_iterate_phdr(note, NULL);
	for (int i = 0; i < THREADS; i++)
		printf("thread %d: %016lx\n", i, sums[i]);
	printf("all: %016lx\n", total);
	return 0;
}
