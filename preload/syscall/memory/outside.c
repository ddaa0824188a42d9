// Shared mappings that others may write; see outside.h.
// Runs in: application threads while recording, on the engine's stack.
// May call: core.
// Owns: the list of watched mappings.
#include "outside.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <time.h>

#include "../../core/copy.h"
#include "../../core/nolibc.h"
#include "../../core/page.h"
#include "../../core/panic.h"
#include "../../core/raw.h"
#include "../descriptor.h"
#include "../fd/input.h"

#define WATCHED 256
#define COMPARED 0x4000000 // bytes of a mapping that are compared at its end; of a longer one only the file's time is
#define NANO 1000000000ULL
#define AGAIN NANO // between two looks at who else has a file
#define TMPFS 0x01021994
#define HUGETLBFS 0x958458f6
#define PATH 512
#define LOOKS 64

struct watch {
	uint64_t addr, len;
	uint64_t bytes;    // of the file that are there
	uint64_t sum;      // of these, where they are compared
	uint64_t dev, ino, size, mtime;
	uint64_t since;
	uint32_t key;
	bool compared, own, writable;
	char path[PATH];   // empty where there is none
};

static struct watch watches[WATCHED];
static uint32_t count;
static uint32_t held; // for as long as it takes to read what is compared
static bool crowded;

static uint64_t now(void)
{
	struct timespec ts = {0};
	GR_RAW(SYS_clock_gettime, CLOCK_MONOTONIC_COARSE, &ts);
	return ts.tv_sec * NANO + ts.tv_nsec;
}

static uint64_t sum_of(uint64_t addr, uint64_t bytes)
{
	uint64_t sum = GR_HASH_SEED;
	char page[4096];
	while (bytes) {
		uint64_t n = bytes < sizeof page ? bytes : sizeof page, got = gr_peek(page, addr, n);
		sum = gr_hash(sum, page, got); // what the file does not have any more is missing in it
		addr += n;
		bytes -= n;
	}
	return sum;
}

static const char *name_of(const struct watch *w)
{
	return w->path[0] ? w->path : "a file without a name";
}

// ---------------------------------------------------------------- at its beginning
static _Noreturn void refuse(const struct gr_call *call, const struct watch *w, const struct gr_peer *peer)
{
	char text[GR_PANIC_TEXT];
	gr_format(text, sizeof text, "memory shared with another process: %s, which pid %d has %s for writing"
		  "\nend that process first, or record the program where it works alone",
		  name_of(w), peer->pid, peer->mapped ? "mapped" : "open");
	gr_panic(call->self, GR_PANIC_REFUSED, "%s", (uint64_t)text, 0);
}

// Memory that is no file's: what a device or the kernel writes there, nobody sees. /dev/zero is memory like any other.
static void check_device(const struct gr_call *call, const struct stat *st)
{
	bool zero = S_ISCHR(st->st_mode) && st->st_rdev == makedev(1, 5);
	if (S_ISREG(st->st_mode) || zero || gr_fd_rule((int)call->arg[4]) == GR_ACT_IGNORE)
		return;
	gr_panic(call->self, GR_PANIC_REFUSED,
		 "memory that a device or the kernel writes, mapped from descriptor %d\nrecord without the part of the program that uses it",
		 call->arg[4], 0);
}

// Where one look at everybody is worth its price: not where the kernel says that nobody else has the file open for writing.
// What a child or the receiver of a message has is the same opening as ours, of which the kernel says nothing; and it does
// not count the openings of memory without a name (memfd).
static bool is_suspicious(int fd, bool writable, bool nameless)
{
	bool own = (gr_fd_get(fd) & GR_FD_CLASS) == GR_CLASS_file && !gr_fd_given();
	if (nameless)
		return !own;
	return writable ? !own || gr_peer_writes(fd, true) != 0 : gr_peer_writes(fd, false) == 1;
}

// When the file was last looked for; each file once in a while.
static uint64_t *looked_at(uint32_t key)
{
	static struct { uint32_t key; uint64_t time; } looks[LOOKS];
	if (looks[key % LOOKS].key != key)
		looks[key % LOOKS].time = 0;
	looks[key % LOOKS].key = key;
	return &looks[key % LOOKS].time;
}

static bool is_found(const struct watch *w, struct gr_peer *peer)
{
	uint64_t *last = looked_at(w->key), time = now();
	if (*last && time - *last <= AGAIN)
		return false;
	*last = time;
	return gr_peer_find(w->addr, w->dev, w->ino, peer);
}

void gr_outside_mapped(const struct gr_call *call, uint32_t key, bool may_write, bool referred)
{
	struct stat st;
	struct statfs fs = {0};
	int fd = (int)call->arg[4];
	if (GR_RAW(SYS_fstat, fd, &st))
		return;
	check_device(call, &st);
	if (!S_ISREG(st.st_mode) || gr_fd_rule(fd) == GR_ACT_IGNORE)
		return;
	GR_RAW(SYS_fstatfs, fd, &fs);
	bool in_memory = fs.f_type == TMPFS || fs.f_type == HUGETLBFS;
	uint64_t offset = call->arg[5], size = st.st_size;
	struct watch w = {
		.addr = call->result, .len = (call->arg[1] + 4095) & ~4095ULL, .dev = st.st_dev, .ino = st.st_ino, .size = size,
		.mtime = st.st_mtim.tv_sec * NANO + st.st_mtim.tv_nsec, .since = now(), .key = key, .writable = may_write,
	};
	char link[40];
	gr_format(link, sizeof link, "/proc/self/fd/%d", (long)fd);
	long n = GR_RAW(SYS_readlink, link, w.path, PATH - 1);
	w.path[n > 0 && n < PATH - 1 ? n : 0] = 0;
	struct gr_peer peer;
	gr_latch(&held);
	if (is_suspicious(fd, may_write, in_memory && !st.st_nlink) && is_found(&w, &peer))
		refuse(call, &w, &peer);
	gr_unlatch(&held);
	w.bytes = size > offset ? (size - offset < call->arg[1] ? size - offset : call->arg[1]) : 0;
	w.compared = !may_write && !referred && w.bytes <= COMPARED && (in_memory || call->action == GR_ACT_RECORD);
	w.sum = w.compared ? sum_of(w.addr, w.bytes) : 0;
	gr_latch(&held);
	if (count < WATCHED) {
		watches[count++] = w;
	} else if (!crowded) {
		crowded = true;
		gr_notice("more than 256 files were mapped to be shared at a time: changes by others were not looked for in all of them");
	}
	gr_unlatch(&held);
}

// ---------------------------------------------------------------- the program's own changes
void gr_outside_own_file(uint32_t key)
{
	if (!count || !key)
		return;
	gr_latch(&held);
	for (uint32_t i = 0; i < count; i++)
		watches[i].own |= watches[i].key == key;
	gr_unlatch(&held);
}

static bool meets(const struct watch *w, uint64_t addr, uint64_t len)
{
	return w->addr < addr + len && addr < w->addr + w->len;
}

void gr_outside_own_range(uint64_t addr, uint64_t len)
{
	if (!count)
		return;
	gr_latch(&held);
	for (uint32_t i = 0; i < count; i++)
		if (meets(&watches[i], addr, len))
			watches[i].own = watches[i].writable = true;
	gr_unlatch(&held);
}

// ---------------------------------------------------------------- at its end
// The file's time, where contents are not compared; by its path, because the descriptor is closed long since.
static bool is_newer(const struct watch *w)
{
	struct stat st;
	return w->path[0] && !GR_RAW(SYS_newfstatat, AT_FDCWD, w->path, &st, 0) && st.st_dev == w->dev && st.st_ino == w->ino &&
	       ((uint64_t)st.st_size != w->size || st.st_mtim.tv_sec * NANO + st.st_mtim.tv_nsec != w->mtime);
}

static void tell(const struct watch *w, const struct gr_peer *peer)
{
	char text[PATH + 256];
	if (peer)
		gr_format(text, sizeof text, "memory shared with another process: %s, which pid %d has %s for writing by now;"
			  " what that process stored is not recorded",
			  name_of(w), peer->pid, peer->mapped ? "mapped" : "open");
	else
		gr_format(text, sizeof text, "memory shared with another process: %s was changed from outside while it was mapped;"
			  " a replay shows it as it was at first", name_of(w));
	gr_notice(text);
}

static void check(struct watch *w)
{
	struct gr_peer peer;
	if (w->writable) {
		if (now() - w->since > AGAIN && is_found(w, &peer))
			tell(w, &peer);
	} else if (!w->own && (w->compared ? sum_of(w->addr, w->bytes) != w->sum : is_newer(w))) {
		tell(w, NULL);
	}
}

// Of a view that is given back in part, the front is watched on, where there is one.
static bool shorten(struct watch *w, uint64_t addr)
{
	if (addr <= w->addr)
		return false;
	w->len = addr - w->addr;
	w->bytes = w->bytes < w->len ? w->bytes : w->len;
	w->sum = w->compared ? sum_of(w->addr, w->bytes) : 0;
	return true;
}

void gr_outside_leaves(uint64_t addr, uint64_t len)
{
	if (!count)
		return;
	gr_latch(&held);
	uint32_t kept = 0;
	for (uint32_t i = 0; i < count; i++) {
		struct watch *w = &watches[i];
		if (meets(w, addr, len)) {
			check(w);
			if (!shorten(w, addr))
				continue;
		}
		if (kept != i)
			watches[kept] = *w;
		kept++;
	}
	count = kept;
	gr_unlatch(&held);
}

void gr_outside_moved(uint64_t from, uint64_t old_len, uint64_t to)
{
	if (!count)
		return;
	gr_latch(&held);
	for (uint32_t i = 0; i < count; i++)
		if (meets(&watches[i], from, old_len) && watches[i].addr >= from)
			watches[i].addr = to + (watches[i].addr - from);
	gr_unlatch(&held);
}

void gr_outside_end(void)
{
	gr_outside_leaves(0, ~0ULL);
}
