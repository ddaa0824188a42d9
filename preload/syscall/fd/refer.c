// What comes from a large file is not logged: the log names the file, the range and a check. So contents are held once at most,
// and by default by the file itself; see docs/architecture.md.
// Runs in: application threads, on the engine's stack.
// May call: core, log.
// Owns: the table `file` of the control page; which files may be referred to.
//
// INVARIANT(referred-is-unchanged): a file is known by device, inode, size and both times. Who writes to it changes the time of
// change before the first byte, unless that was a moment ago: so a file is referred to only when its last change is longer ago than
// the kernel's clock is coarse, on file systems that keep that time for stores through mappings, too, and while nobody has it open
// for writing. Each call that reads looks behind itself whether it is still the same.
//
// INVARIANT(kept-before-changed): in front of a call by which the program itself may change such a file, or the way to it, and in
// front of its first child, what was referred to is copied to the log (struct gr_chunk of the magic GR_KEPT_MAGIC).
#include "refer.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/uio.h>
#include <time.h>

#include "../../core/copy.h"
#include "../../core/nolibc.h"
#include "../../core/page.h"
#include "../../core/panic.h"
#include "../../core/raw.h"
#include "../../log/log.h"
#include "../descriptor.h"
#include "../memory/outside.h"
#include "input.h"

#define NANO 1000000000ULL
#define AGE (50 * 1000000ULL) // the kernel's clock for times of files goes on every 10 ms at least
#define LOOSE 0x400000
#define LEAST_MAPPED 0x10000 // bytes of a mapping: the segments of a library are several
#define VECTORS 64
#define PATH 4096
#define PIECE 0x400000
#define SAMPLE 8           // bytes of each page that are in a check

static uint32_t held;
static enum stopped { NOT_STOPPED, CHILDREN, OTHER_ROOT } stopped;

// INVARIANT(libraries-stay): what the loader maps (MAP_DENYWRITE, which nobody else asks for) is replaced and not written to, or all
// who have it mapped would fail. So a child is no reason to keep it.
static bool is_on(bool loaded)
{
	enum stopped now = __atomic_load_n(&stopped, __ATOMIC_RELAXED);
	return gr_mode == GR_MODE_RECORD && gr_ctl->knob[GR_KNOB_references] && (now == NOT_STOPPED || (loaded && now == CHILDREN));
}

static uint64_t nanoseconds(struct timespec time)
{
	return (uint64_t)time.tv_sec * NANO + (uint64_t)time.tv_nsec;
}

static bool is_same(const struct gr_file *f, const struct stat *st)
{
	return f->inode == st->st_ino && f->device == st->st_dev && f->size == (uint64_t)st->st_size &&
	       f->mtime == nanoseconds(st->st_mtim) && f->ctime == nanoseconds(st->st_ctim);
}

static const char *path_of(const struct gr_file *f)
{
	return gr_ctl->inputs + f->path;
}

// ---------------------------------------------------------------- which files
// Those on which a store through a mapping changes the file's times, as it does not in memory (tmpfs).
static bool keeps_times(int fd)
{
	static const long known[] = {
		0xef53, 0x58465342, 0x9123683e, 0x794c7630, 0xf2f52010, 0xca451a4e, // ext4, xfs, btrfs, overlayfs, f2fs, bcachefs
	};
	struct statfs fs;
	if (GR_RAW(SYS_fstatfs, fd, &fs))
		return false;
	for (unsigned i = 0; i < sizeof known / sizeof *known; i++)
		if ((long)fs.f_type == known[i])
			return true;
	return false;
}

static bool has_settled(const struct stat *st)
{
	struct timespec now = {0};
	GR_RAW(SYS_clock_gettime, CLOCK_REALTIME_COARSE, &now);
	uint64_t changed = nanoseconds(st->st_ctim), written = nanoseconds(st->st_mtim), last = changed > written ? changed : written;
	bool seconds = !st->st_ctim.tv_nsec && !st->st_mtim.tv_nsec; // more than that some file systems do not keep
	return last + (seconds ? 2 * NANO : 0) + AGE < nanoseconds(now);
}

// Surely nobody could store to them through a mapping when they were looked at, which the kernel tells their owners only. What calls
// read is looked at each time.
static bool sure[GR_FILES];
static bool library[GR_FILES]; // only the loader has mapped it

// The number of the file in the table, or -1. Under the latch.
static int add(int fd, const struct stat *st)
{
	char link[40], text[PATH + 2] = "@ ";
	char *path = text + 2;
	struct stat there;
	uint32_t number = gr_ctl->files;
	if (number == GR_FILES || (uint64_t)st->st_size < GR_LARGE || !st->st_nlink || !has_settled(st) || !keeps_times(fd))
		return -1;
	int writes = gr_peer_writes(fd, false);
	if (writes > 0)
		return -1;
	gr_format(link, sizeof link, "/proc/self/fd/%d", (long)fd);
	long n = GR_RAW(SYS_readlink, link, path, PATH - 1);
	if (n <= 0 || n == PATH - 1 || path[0] != '/')
		return -1;
	path[n] = 0;
	if (GR_RAW(SYS_newfstatat, AT_FDCWD, path, &there, AT_SYMLINK_NOFOLLOW) || there.st_dev != st->st_dev || there.st_ino != st->st_ino)
		return -1;
	const char *noted = gr_input_said(text);
	if (!noted)
		return -1;
	gr_ctl->file[number] = (struct gr_file){
		.device = st->st_dev, .inode = st->st_ino, .size = st->st_size, .mtime = nanoseconds(st->st_mtim),
		.ctime = nanoseconds(st->st_ctim), .state = GR_FILE_REFERRED, .path = noted + 2 - gr_ctl->inputs,
	};
	sure[number] = !writes;
	__atomic_store_n(&gr_ctl->files, number + 1, __ATOMIC_RELEASE);
	return (int)number;
}

static int find(const struct stat *st)
{
	for (uint32_t i = gr_ctl->files; i--;)
		if (is_same(&gr_ctl->file[i], st))
			return (int)i;
	return -1;
}

// INVARIANT(ranges-are-dense): what may have to be kept is one range, of which calls have brought in a quarter, but for LOOSE bytes.
static uint64_t brought[GR_FILES];

static bool widen(uint32_t number, uint64_t from, uint64_t to)
{
	struct gr_file *f = &gr_ctl->file[number];
	uint64_t all = brought[number] + (to - from), first = from, last = to;
	if (brought[number]) {
		first = from < f->from ? from : f->from;
		last = to > f->to ? to : f->to;
	}
	if (last - first > LOOSE + 4 * all)
		return false;
	brought[number] = all;
	f->from = first;
	f->to = last;
	return true;
}

enum how { READ, MAPPED, LOADED };

static int refer(int fd, uint64_t from, uint64_t len, enum how how)
{
	struct stat st;
	if (!len || GR_RAW(SYS_fstat, fd, &st) || !S_ISREG(st.st_mode) || from + len > (uint64_t)st.st_size || from + len < from)
		return -1;
	gr_latch(&held);
	bool on = is_on(how == LOADED);
	int number = on ? find(&st) : -1;
	if (number < 0 && on && (number = add(fd, &st)) >= 0)
		library[number] = how == LOADED;
	struct gr_file *f = &gr_ctl->file[number < 0 ? 0 : number];
	if (number >= 0 && how != READ && !sure[number])
		number = -1;
	if (number >= 0 && how != LOADED)
		library[number] = false;
	if (number >= 0 && (f->state != GR_FILE_REFERRED || !widen((uint32_t)number, from, from + len)))
		number = -1;
	gr_unlatch(&held);
	return number;
}

// ---------------------------------------------------------------- calls that read
// Where the calls on this descriptor begin is told by the kernel only behind them, so somebody else's may come in between.
static bool has_place(const struct gr_call *call)
{
	return call->nr == SYS_read || call->nr == SYS_readv || (call->nr == SYS_preadv2 && call->arg[3] == ~0ULL);
}

bool gr_refer_begin(const struct gr_call *call, struct gr_refer *ret)
{
	bool several = false;
	switch (call->nr) {
	case SYS_read:
	case SYS_pread64:
		if (call->arg[2] < GR_LEAST_REFERRED)
			return false;
		break;
	case SYS_readv:
	case SYS_preadv:
	case SYS_preadv2:
		several = true;
		break;
	default:
		return false;
	}
	int fd = (int)call->arg[0];
	if (!is_on(false) || (several && call->arg[2] > VECTORS))
		return false;
	if (!gr_fd_large(fd))
		return false;
	bool alone = __atomic_load_n(&gr_ctl->threads, __ATOMIC_RELAXED) <= 1;
	*ret = (struct gr_refer){fd, has_place(call), -1};
	if (ret->own_place && !alone)
		ret->before = GR_RAW(SYS_lseek, fd, 0, SEEK_CUR);
	return true;
}

// Not of all bytes, which would take as long as the copy: what differs is noticed by the file's times, a wrong range by this.
static uint64_t sample(uint64_t check, uint64_t addr, uint64_t len)
{
	uint64_t word = 0;
	for (uint64_t at = 0; at < len; at += 4096)
		check = gr_hash_word(check, gr_peek(&word, addr + at, len - at < SAMPLE ? len - at : SAMPLE) ? word : 0);
	return check;
}

void gr_refer_store(struct gr_stores *stores, uint64_t addr, uint64_t len, uint32_t number, uint64_t offset, uint64_t check)
{
	const struct gr_store_file file = {offset, check};
	if (stores->full || (uint64_t)(stores->end - stores->at) < sizeof(struct gr_store) + sizeof file) {
		stores->full = true;
		return;
	}
	*(struct gr_store *)stores->at = (struct gr_store){addr, len, GR_STORE_FILE, number};
	memcpy(stores->at + sizeof(struct gr_store), &file, sizeof file);
	stores->at += sizeof(struct gr_store) + sizeof file;
}

// The buffers of a call, which are one or a vector.
static uint64_t buffers_of(const struct gr_call *call, struct iovec iov[VECTORS])
{
	iov[0] = (struct iovec){(void *)call->arg[1], call->arg[2]};
	if (call->nr == SYS_read || call->nr == SYS_pread64)
		return 1;
	return gr_peek(iov, call->arg[1], call->arg[2] * sizeof *iov) / sizeof *iov;
}

bool gr_refer_end(const struct gr_call *call, const struct gr_call *real, const struct gr_refer *r, struct gr_stores *stores)
{
	struct iovec iov[VECTORS], filled[VECTORS];
	if (call->result < GR_LEAST_REFERRED)
		return false;
	uint64_t count = buffers_of(call, iov), left = call->result, offset = call->arg[3];
	if (buffers_of(real, filled) != count)
		return false;
	if (r->own_place) {
		long behind = GR_RAW(SYS_lseek, r->fd, 0, SEEK_CUR);
		if (behind < call->result || (r->before >= 0 && behind - r->before != call->result))
			return false;
		offset = (uint64_t)(behind - call->result);
	}
	int number = refer(r->fd, offset, call->result, READ);
	if (number < 0)
		return false;
	for (uint64_t i = 0; left && i < count; i++) {
		uint64_t n = iov[i].iov_len < left ? iov[i].iov_len : left, addr = (uint64_t)iov[i].iov_base;
		if (!n)
			continue;
		gr_refer_store(stores, addr, n, (uint32_t)number, offset, sample(GR_HASH_SEED, (uint64_t)filled[i].iov_base, n));
		offset += n;
		left -= n;
	}
	return !left;
}

int gr_refer_mapped(const struct gr_call *call, uint64_t bytes)
{
	enum how how = call->arg[3] & MAP_DENYWRITE ? LOADED : MAPPED;
	if (!is_on(how == LOADED) || bytes < LEAST_MAPPED || call->arg[1] < LEAST_MAPPED)
		return -1;
	return refer((int)call->arg[4], call->arg[5], bytes, how);
}

// ---------------------------------------------------------------- before a file changes
// As it was referred to, by its path or by a descriptor that the program still has.
static long open_again(const struct gr_file *f)
{
	struct stat st;
	long fd = GR_RAW(SYS_openat, AT_FDCWD, path_of(f), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0);
	if (!GR_IS_ERR(fd) && !GR_RAW(SYS_fstat, fd, &st) && is_same(f, &st))
		return fd;
	if (!GR_IS_ERR(fd))
		GR_RAW(SYS_close, fd);
	return -1;
}

// What cannot be opened any more was changed by somebody else: the controller finds that at the end.
static void keep(struct gr_thread *self, uint32_t number)
{
	struct gr_file *f = &gr_ctl->file[number];
	if (f->state != GR_FILE_REFERRED)
		return;
	long fd = open_again(f);
	if (fd < 0)
		return;
	uint64_t at = f->from;
	while (at < f->to) {
		uint64_t want = f->to - at < PIECE ? f->to - at : PIECE;
		struct gr_chunk *chunk = gr_log_take(self, want);
		if (!chunk)
			break;
		chunk->thread = number;
		chunk->base_stamp = at;
		__atomic_store_n(&chunk->magic, GR_KEPT_MAGIC, __ATOMIC_RELEASE); // from here on nobody looks for headers in it
		long n = GR_RAW(SYS_pread64, fd, chunk + 1, want, at);
		if (n <= 0)
			break;
		__atomic_store_n(&chunk->used, (uint64_t)n, __ATOMIC_RELEASE);
		at += (uint64_t)n;
	}
	struct stat st;
	bool whole = at >= f->to && !GR_RAW(SYS_fstat, fd, &st) && is_same(f, &st);
	GR_RAW(SYS_close, fd);
	if (whole)
		__atomic_store_n(&f->state, GR_FILE_KEPT, __ATOMIC_RELEASE);
}

static void keep_file(struct gr_thread *self, const struct stat *st)
{
	for (uint32_t i = 0; i < gr_ctl->files; i++)
		if (gr_ctl->file[i].device == st->st_dev && gr_ctl->file[i].inode == st->st_ino)
			keep(self, i);
}

static void keep_all(struct gr_thread *self, bool libraries)
{
	for (uint32_t i = 0; i < gr_ctl->files; i++)
		if (libraries || !library[i])
			keep(self, i);
}

static bool renames(long nr)
{
	return nr == SYS_rename || nr == SYS_renameat || nr == SYS_renameat2;
}

static void keep_path(const struct gr_call *call, int dirfd, uint64_t path)
{
	struct stat st;
	for (int flags = 0; flags <= AT_SYMLINK_NOFOLLOW; flags += AT_SYMLINK_NOFOLLOW) {
		if (GR_RAW(SYS_newfstatat, dirfd, path, &st, flags))
			continue;
		if (S_ISREG(st.st_mode))
			keep_file(call->self, &st);
		else if (S_ISDIR(st.st_mode) && renames(call->nr)) // and all that lies below
			keep_all(call->self, true);
	}
}

static void stop(struct gr_thread *self, enum stopped why);

// Times and rights of a file change by a descriptor that is only open for reading.
static bool changes_by_descriptor(long nr)
{
	return nr == SYS_fchmod || nr == SYS_fchown || nr == SYS_utimensat || nr == SYS_fsetxattr || nr == SYS_fremovexattr;
}

void gr_refer_changes(const struct gr_call *call)
{
	struct stat st;
	int dirfd = AT_FDCWD, count;
	if (gr_rule_moves_root(call->nr))
		stop(call->self, OTHER_ROOT);
	if (!__atomic_load_n(&gr_ctl->files, __ATOMIC_ACQUIRE) || (!(call->sys->flags & GR_SF_IRREVOCABLE) && !gr_rule_writes(call)))
		return;
	const struct gr_fx *fx = gr_call_fx(call, &count);
	gr_latch(&held);
	for (int i = 0; i < count && fx[i].kind; i++) {
		if (fx[i].kind == GR_FX_FD) {
			dirfd = (int)call->arg[fx[i].arg - 1];
			if (changes_by_descriptor(call->nr) && !GR_RAW(SYS_fstat, dirfd, &st) && S_ISREG(st.st_mode))
				keep_file(call->self, &st);
		} else if (fx[i].kind == GR_FX_STR && call->arg[fx[i].arg - 1]) {
			keep_path(call, dirfd, call->arg[fx[i].arg - 1]);
		}
	}
	gr_unlatch(&held);
}

static void stop(struct gr_thread *self, enum stopped why)
{
	gr_latch(&held);
	if (stopped < why && gr_mode == GR_MODE_RECORD) {
		__atomic_store_n(&stopped, why, __ATOMIC_RELAXED);
		keep_all(self, why == OTHER_ROOT);
	}
	gr_unlatch(&held);
}

void gr_refer_stop(struct gr_thread *self)
{
	stop(self, CHILDREN);
}

// ---------------------------------------------------------------- replaying
static _Noreturn void changed(const struct gr_file *f, const char *how)
{
	char text[GR_PANIC_TEXT];
	gr_format(text, sizeof text, "%s, which the demo refers to, %s\nput it back as it was; `gdbrr pack` keeps such files in the demo",
		  (uint64_t)path_of(f), (uint64_t)how);
	gr_panic(gr_self, GR_PANIC_DESYNC, "%s", (uint64_t)text, 0);
}

// The kernel's stores are seen by no debug register: they are made once more.
static void show(uint64_t addr, uint64_t len)
{
	uint8_t some[256];
	for (uint64_t at = 0, n; at < len; at += n) {
		n = len - at < sizeof some ? len - at : sizeof some;
		gr_poke(addr + at, some, gr_peek(some, addr + at, n));
	}
}

static bool read_in(const struct gr_store *s, long fd, uint64_t offset)
{
	bool lifted = gr_copy_lift && gr_copy_lift(0, ~0UL);
	uint64_t done = 0;
	long n = 1;
	for (; done < s->len && n > 0; done += n > 0 ? (uint64_t)n : 0)
		n = GR_RAW(SYS_pread64, fd, s->addr + done, s->len - done, offset + done);
	if (lifted)
		gr_copy_put_back();
	return done == s->len;
}

// The file that was read last stays open, above the numbers that a program may have: most are read in many pieces.
static struct { int fd; uint32_t number; } kept_open = {-1, 0};

static long open_for_replay(const struct gr_file *f, uint32_t number)
{
	if (kept_open.fd >= 0 && kept_open.number == number)
		return kept_open.fd;
	long fd = open_again(f);
	if (fd < 0)
		changed(f, "is gone, or was changed since");
	if (kept_open.fd >= 0)
		GR_RAW(SYS_close, kept_open.fd);
	long above = GR_RAW(SYS_fcntl, fd, F_DUPFD_CLOEXEC, GR_DESCRIPTORS / 2);
	if (GR_IS_ERR(above))
		above = GR_RAW(SYS_fcntl, fd, F_DUPFD_CLOEXEC, GR_FD_DATA + 1);
	kept_open.fd = GR_IS_ERR(above) ? -1 : (int)above;
	kept_open.number = number;
	if (kept_open.fd < 0)
		return fd;
	GR_RAW(SYS_close, fd);
	return kept_open.fd;
}

// INVARIANT(files-are-the-controllers): which file a number means, and that it may be read at all, is decided in front of the
// replay (gdbrr/launch/files.py). A demo holds numbers.
bool gr_refer_put(const struct gr_store *s, const struct gr_store_file *file)
{
	struct stat st;
	if (s->arg >= GR_FILES || gr_ctl->file[s->arg].state == GR_FILE_NONE || s->len >= GR_WINDOW_SIZE)
		return false;
	struct gr_file f = gr_ctl->file[s->arg];
	if (f.path >= GR_INPUTS || file->offset > f.size || s->len > f.size - file->offset)
		return false;
	long fd = open_for_replay(&f, s->arg);
	bool there = read_in(s, fd, file->offset), same = !GR_RAW(SYS_fstat, fd, &st) && is_same(&f, &st);
	if (fd != kept_open.fd)
		GR_RAW(SYS_close, fd);
	if (!same)
		changed(&f, "was changed since");
	if (there && file->check && file->check != sample(GR_HASH_SEED, s->addr, s->len))
		changed(&f, "has other contents by now");
	if (there && gr_copy_watched)
		show(s->addr, s->len);
	return there;
}
