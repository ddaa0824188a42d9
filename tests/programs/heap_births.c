// Threads one behind the other, and how far the program's memory grows behind the first of them. Says the growth in KiB on stderr, and
// what there was before.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static void *live(void *arg)
{
	free(malloc(100));
	return arg;
}

static long resident(void)
{
	char line[200];
	long found = 0;
	FILE *file = fopen("/proc/self/status", "r");
	while (file && !found && fgets(line, sizeof line, file))
		sscanf(line, "VmRSS: %ld", &found);
	fclose(file);
	return found;
}

static void births(int count)
{
	pthread_t thread;
	for (int i = 0; i < count; i++)
		if (pthread_create(&thread, NULL, live, NULL) || pthread_join(thread, NULL))
			exit(2);
}

int main(int argc, char **argv)
{
	births(argc > 1 ? atoi(argv[1]) : 1000);
	long before = resident();
	births(argc > 2 ? atoi(argv[2]) : 1000);
	fprintf(stderr, "%ld %ld\n", resident() - before, before);
	return 0;
}
