// The list of mappings; see areas.h.
// Runs in: the one thread that takes a digest.
// May call: core.
// Owns: the descriptor of the page map while a digest is taken.
#include "areas.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "../core/nolibc.h"
#include "../core/panic.h"
#include "../core/raw.h"

#define PAGES_AT_ONCE 512
#define PM_HAS_CONTENTS (1ULL << 63 | 1ULL << 62) // present, swapped out

static const char *list_end;
static int pagemap = -1;
static uint64_t entries[PAGES_AT_ONCE], entries_start, entries_count;

_Static_assert(GR_WORK_ADDR + GR_WORK_SIZE <= GR_ZONE_END, "zone layout");

// The program may have used up its descriptors; the limit is put back behind each use.
static long open_proc(struct gr_thread *self, const char *path)
{
	long fd = GR_RAW(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
	struct rlimit was, more;
	if (fd == -24 && !GR_RAW(SYS_prlimit64, 0, RLIMIT_NOFILE, NULL, &was) && was.rlim_cur < was.rlim_max) { // EMFILE
		more = (struct rlimit){was.rlim_cur + 2, was.rlim_max};
		GR_RAW(SYS_prlimit64, 0, RLIMIT_NOFILE, &more, NULL);
		fd = GR_RAW(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
		GR_RAW(SYS_prlimit64, 0, RLIMIT_NOFILE, &was, NULL);
	}
	if (GR_IS_ERR(fd))
		gr_panic(self, GR_PANIC_REFUSED, "a digest, because %s cannot be opened (error %d)\nrecord without --digest",
			 (uint64_t)path, -fd);
	return fd;
}

// thread-self, not self: a leader that has left has no mappings of its own any more.
void gr_areas_read(struct gr_thread *self)
{
	static bool mapped;
	if (!mapped) {
		long ret = GR_RAW(SYS_mmap, GR_WORK_ADDR, GR_WORK_SIZE, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
		if (ret != (long)GR_WORK_ADDR)
			gr_panic(self, GR_PANIC_REFUSED, "a digest, because there is no memory for it (error %d)", -ret, 0);
		mapped = true;
	}
	gr_areas_done();
	char *p = (char *)GR_WORK_ADDR;
	long fd = open_proc(self, "/proc/thread-self/maps"), n;
	while ((n = GR_RAW(SYS_read, fd, p, (char *)GR_WORK_ADDR + GR_WORK_LIST - p)) > 0)
		p += n;
	GR_RAW(SYS_close, fd);
	list_end = p;
	entries_count = 0;
	pagemap = open_proc(self, "/proc/thread-self/pagemap");
}

void gr_areas_done(void)
{
	if (pagemap >= 0)
		GR_RAW(SYS_close, pagemap);
	pagemap = -1;
}

// ---------------------------------------------------------------- lines
static uint64_t hex(const char **p)
{
	uint64_t value = 0;
	for (;; (*p)++) {
		unsigned c = (unsigned char)**p;
		unsigned digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : 16;
		if (digit == 16)
			return value;
		value = value << 4 | digit;
	}
}

static void word(const char **p, const char **ret, size_t *ret_len)
{
	while (**p == ' ')
		(*p)++;
	for (*ret = *p; **p != ' ' && **p != '\n'; (*p)++)
		;
	*ret_len = *p - *ret;
}

static bool is(const struct gr_area *area, const char *name)
{
	size_t n = gr_strlen(name);
	return area->name_len >= n && memcmp(area->name, name, n) == 0;
}

// START-END PERMS OFFSET DEVICE INODE [NAME]
bool gr_areas_next(const char **at, struct gr_area *ret)
{
	const char *p = *at ? *at : (const char *)GR_WORK_ADDR;
	while (p < list_end) {
		const char *perms, *other;
		size_t n, inode_len;
		ret->start = hex(&p);
		p++;
		ret->end = hex(&p);
		word(&p, &perms, &n);
		word(&p, &other, &n);
		word(&p, &other, &n);
		word(&p, &other, &inode_len);
		while (*p == ' ')
			p++;
		for (ret->name = p; p < list_end && *p != '\n'; p++)
			;
		ret->name_len = p - ret->name;
		p++;
		ret->file = !(inode_len == 1 && *other == '0');
		ret->stack = is(ret, "[stack]");
		bool engine = gr_in_engine(ret->start) || (ret->start >= GR_ZONE && ret->start < GR_ZONE_END);
		if (perms[1] == 'w' && !engine && !is(ret, "[v")) {
			*at = p;
			return true;
		}
	}
	return false;
}

// ---------------------------------------------------------------- pages
uint64_t gr_areas_present(const struct gr_area *area, uint64_t start, unsigned count)
{
	uint64_t bits = 0;
	if (area->file)
		return count == 64 ? ~0ULL : (1ULL << count) - 1;
	for (unsigned i = 0; i < count; i++) {
		uint64_t page = start / GR_PAGE + i;
		if (page < entries_start || page >= entries_start + entries_count) {
			long n = GR_RAW(SYS_pread64, pagemap, entries, sizeof entries, page * sizeof *entries);
			if (n < (long)sizeof *entries)
				return ~0ULL >> (64 - count); // not told: look at all of them
			entries_start = page;
			entries_count = n / sizeof *entries;
		}
		if (entries[page - entries_start] & PM_HAS_CONTENTS)
			bits |= 1ULL << i;
	}
	return bits;
}

// PAGEMAP_SCAN (Linux 6.7) passes over page tables that are not there; where it is missing, every page is asked for.
uint64_t gr_areas_skip(const struct gr_area *area, uint64_t start)
{
	struct { uint64_t start, end, categories; } found = {0};
	struct {
		uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages, inverted, mask, any_of, ret;
	} scan = {
		.size = sizeof scan, .start = start, .end = area->end, .vec = (uint64_t)&found, .vec_len = 1,
		.any_of = 1 << 3 | 1 << 4, .ret = 1 << 3 | 1 << 4, // present, swapped out
	};
	if (area->file)
		return start;
	long n = GR_RAW(SYS_ioctl, pagemap, 0xc0606610, &scan);
	return GR_IS_ERR(n) ? start : n == 0 ? area->end : found.start;
}
