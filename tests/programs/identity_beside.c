// Memory right behind the recorder's own data: the kernel shows both as one mapping, or as two.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

// The end of the mappings that follow each other from the library's on.
static unsigned long find(void)
{
	unsigned long from, to, end = 0;
	char line[600];
	FILE *maps = fopen("/proc/self/maps", "r");
	while (maps && fgets(line, sizeof line, maps)) {
		if (sscanf(line, "%lx-%lx", &from, &to) != 2)
			continue;
		if (strstr(line, "/libgdbrr.so") || (from == end && !strchr(line, '/')))
			end = to;
	}
	if (maps)
		fclose(maps);
	return end;
}

int main(void)
{
	struct timespec now;
	unsigned long end = find();
	char *page = mmap((void *)end, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | (end ? MAP_FIXED_NOREPLACE : 0), -1, 0);
	if (page == MAP_FAILED) {
		printf("something is there already\n");
		page = (char *)end - 4096; // the end of it, never written
	}
	for (int i = 0; i < 5; i++) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		if (page != (char *)end - 4096)
			page[i] = now.tv_nsec & 127;
		write(1, page, 5);
	}
	return 0;
}
