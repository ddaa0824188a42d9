// The list of mappings; see areas.h.
// Runs in: the one thread that takes a digest.
// May call: core.
// Owns: the descriptor of the page map while a digest is taken.
#include "areas.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>

#include "../core/nolibc.h"
#include "../core/panic.h"
#include "../core/raw.h"

#define PAGES_AT_ONCE 512
#define PM_PRESENT (1ULL << 63)
#define PM_SWAPPED (1ULL << 62)
#define PM_OF_FILE (1ULL << 61) // or of shared memory
#define PM_OWN (1ULL << 56)     // nobody else has it
#define SCAN 0xc0606610         // PAGEMAP_SCAN, Linux 6.7
#define IS_PRESENT (1 << 3)
#define IS_SWAPPED (1 << 4)
#define IS_ZERO (1 << 5)

static const char *list_end;
static int pagemap = -1;
static uint64_t entries[PAGES_AT_ONCE], entries_start, entries_count;
static bool no_swap; // else shared memory that is not there may be on a disk
static uint64_t zeros_asked, zeros_start, zeros_end; // the first pages of zeros behind where they were asked for

_Static_assert(GR_WORK_ADDR + GR_WORK_SIZE <= GR_SCRATCH_ADDR, "zone layout");

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
	struct sysinfo info = {.totalswap = 1};
	GR_RAW(SYS_sysinfo, &info);
	no_swap = info.totalswap == 0;
	entries_count = zeros_end = 0;
	pagemap = open_proc(self, "/proc/thread-self/pagemap");
}

void gr_areas_done(void)
{
	if (pagemap >= 0)
		GR_RAW(SYS_close, pagemap);
	pagemap = -1;
}

// ---------------------------------------------------------------- lines
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
		ret->start = gr_hex(&p);
		p++;
		ret->end = gr_hex(&p);
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
		ret->shared = perms[3] == 's';
		ret->memory = ret->shared && no_swap && (is(ret, "/memfd:") || is(ret, "/dev/zero (deleted)"));
		ret->file = ret->file && !ret->memory;
		bool engine = gr_in_engine(ret->start) || (ret->start >= GR_ZONE && ret->start < GR_ZONE_END);
		if (perms[1] == 'w' && !engine && !is(ret, "[v")) {
			*at = p;
			return true;
		}
	}
	return false;
}

// ---------------------------------------------------------------- pages
static bool entry_of(uint64_t page, uint64_t *ret)
{
	if (page < entries_start || page >= entries_start + entries_count) {
		long n = GR_RAW(SYS_pread64, pagemap, entries, sizeof entries, page * sizeof *entries);
		if (n < (long)sizeof *entries)
			return false;
		entries_start = page;
		entries_count = n / sizeof *entries;
	}
	*ret = entries[page - entries_start];
	return true;
}

// The first stretch of pages of one of these `kinds` at `start` or behind it. PAGEMAP_SCAN passes over page tables that are not
// there. -1: it is not to be had here; 0: there is none.
static long scan(const struct gr_area *area, uint64_t start, uint64_t kinds, uint64_t *ret_start, uint64_t *ret_end)
{
	struct { uint64_t start, end, kinds; } found = {0};
	struct {
		uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages, inverted, mask, any_of, ret;
	} scan = {
		.size = sizeof scan, .start = start, .end = area->end, .vec = (uint64_t)&found, .vec_len = 1,
		.any_of = kinds, .ret = kinds,
	};
	long n = GR_RAW(SYS_ioctl, pagemap, SCAN, &scan);
	*ret_start = found.start;
	*ret_end = found.end;
	return GR_IS_ERR(n) ? -1 : n;
}

uint64_t gr_areas_present(const struct gr_area *area, uint64_t start, unsigned count)
{
	uint64_t bits = 0;
	if (area->file)
		return count == 64 ? ~0ULL : (1ULL << count) - 1;
	if (area->memory) {
		unsigned char there[64];
		if (GR_RAW(SYS_mincore, start, count * GR_PAGE, there))
			return ~0ULL >> (64 - count);
		for (unsigned i = 0; i < count; i++)
			bits |= (uint64_t)(there[i] & 1) << i;
		return bits;
	}
	for (unsigned i = 0; i < count; i++) {
		uint64_t entry;
		if (!entry_of(start / GR_PAGE + i, &entry))
			return ~0ULL >> (64 - count); // not told: look at all of them
		if (entry & (PM_PRESENT | PM_SWAPPED))
			bits |= 1ULL << i;
	}
	return bits;
}

uint64_t gr_areas_unwritten(const struct gr_area *area, uint64_t start, unsigned count)
{
	uint64_t bits = 0, end = start + (uint64_t)count * GR_PAGE;
	if (area->shared)
		return 0;
	for (unsigned i = 0; i < count; i++) {
		uint64_t entry;
		if (!entry_of(start / GR_PAGE + i, &entry))
			return 0;
		if ((entry & (PM_PRESENT | PM_SWAPPED | PM_OF_FILE | PM_OWN)) == PM_PRESENT)
			bits |= 1ULL << i;
	}
	while (bits && start < end) {
		if (start < zeros_asked || start >= zeros_end) {
			long n = scan(area, start, IS_ZERO, &zeros_start, &zeros_end);
			if (n < 0)
				return 0;
			if (n == 0)
				zeros_start = zeros_end = area->end;
			zeros_asked = start;
		}
		for (unsigned i = 0; i < count; i++) {
			uint64_t page = end - (uint64_t)(count - i) * GR_PAGE;
			if (page >= zeros_start && page < zeros_end)
				bits &= ~(1ULL << i);
		}
		start = zeros_end;
	}
	return bits;
}

// Where it cannot be scanned, every page is asked for.
// Of shared memory the page tables do not tell all that is there.
static uint64_t skip_memory(const struct gr_area *area, uint64_t start)
{
	unsigned char there[PAGES_AT_ONCE];
	for (; start < area->end; start += sizeof there * GR_PAGE) {
		uint64_t left = (area->end - start) / GR_PAGE, count = left < sizeof there ? left : sizeof there;
		if (GR_RAW(SYS_mincore, start, count * GR_PAGE, there))
			return start;
		for (uint64_t i = 0; i < count; i++)
			if (there[i] & 1)
				return start + i * GR_PAGE;
	}
	return area->end;
}

uint64_t gr_areas_skip(const struct gr_area *area, uint64_t start)
{
	uint64_t first, last;
	if (area->file)
		return start;
	if (area->memory)
		return skip_memory(area, start);
	long n = scan(area, start, IS_PRESENT | IS_SWAPPED, &first, &last);
	return n < 0 ? start : n == 0 ? area->end : first;
}
