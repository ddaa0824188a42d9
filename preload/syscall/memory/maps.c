// What the kernel says is mapped: /proc/self/maps, where the engine's own lists do not tell enough.
// Runs in: application threads, on the engine's stack.
// May call: core.
// Owns: nothing.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "../../core/nolibc.h"
#include "../../core/page.h"
#include "../../core/raw.h"
#include "memory.h"

// The program may have used up its descriptors; the limit is put back at once.
static long open_list(void)
{
	static const char path[] = "/proc/thread-self/maps";
	long fd = GR_RAW(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
	struct rlimit was, more;
	if (fd == -24 && !GR_RAW(SYS_prlimit64, 0, RLIMIT_NOFILE, NULL, &was) && was.rlim_cur < was.rlim_max) { // EMFILE
		more = (struct rlimit){was.rlim_cur + 1, was.rlim_max};
		GR_RAW(SYS_prlimit64, 0, RLIMIT_NOFILE, &more, NULL);
		fd = GR_RAW(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
		GR_RAW(SYS_prlimit64, 0, RLIMIT_NOFILE, &was, NULL);
	}
	return fd;
}

// START-END PERMS OFFSET MAJOR:MINOR INODE ...
static void parse(const char *p, struct gr_map *ret)
{
	*ret = (struct gr_map){.start = gr_hex(&p)};
	p++;
	ret->end = gr_hex(&p);
	p++;
	ret->prot = (p[0] == 'r' ? PROT_READ : 0) | (p[1] == 'w' ? PROT_WRITE : 0) | (p[2] == 'x' ? PROT_EXEC : 0);
	ret->shared = p[3] == 's';
	p += 5;
	ret->offset = gr_hex(&p);
	p++;
	ret->device = gr_hex(&p) << 32;
	p++;
	ret->device |= gr_hex(&p);
	p++;
	for (; *p >= '0' && *p <= '9'; p++)
		ret->inode = ret->inode * 10 + (*p - '0');
}

bool gr_map_is_engines(const struct gr_map *map)
{
	return gr_in_engine(map->start) || (map->start >= GR_ZONE && map->start < GR_ZONE_END);
}

#define HEAD 120 // of a line; the rest is a name

bool gr_maps_each(void (*each)(const struct gr_map *map, void *arg), void *arg)
{
	char some[2048], line[HEAD];
	uint32_t filled = 0;
	struct gr_map map;
	long n, fd = open_list();
	if (GR_IS_ERR(fd))
		return false;
	while ((n = GR_RAW(SYS_read, fd, some, sizeof some)) > 0)
		for (long i = 0; i < n; i++) {
			if (some[i] != '\n') {
				if (filled < sizeof line - 1)
					line[filled++] = some[i];
				continue;
			}
			line[filled] = 0;
			filled = 0;
			parse(line, &map);
			each(&map, arg);
		}
	GR_RAW(SYS_close, fd);
	return n == 0;
}
