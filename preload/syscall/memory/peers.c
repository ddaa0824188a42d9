// Other processes that have a file open for writing or mapped; see outside.h.
// Runs in: application threads while recording, on the engine's stack.
// May call: raw system calls.
// Owns: nothing.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

#include "../../core/nolibc.h"
#include "../../core/raw.h"
#include "outside.h"

#define ANCESTORS 64
#define LINE 1024

struct dirent64 { uint64_t ino, off; uint16_t len; uint8_t type; char name[]; };

struct search { char tag[64]; uint64_t addr, dev, ino; };

static long open_of(long pid, const char *what, int flags)
{
	char path[64];
	gr_format(path, sizeof path, "/proc/%d/%s", pid, what);
	return GR_RAW(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC, 0);
}

static long number(const char *p)
{
	long n = 0;
	if (!*p)
		return -1;
	for (; *p; p++) {
		if (*p < '0' || *p > '9')
			return -1;
		n = n * 10 + (*p - '0');
	}
	return n;
}

// ---------------------------------------------------------------- lists of mappings
// Of "FROM-TO PERMS OFFSET DEVICE INODE PATH": device and inode as they stand there. The kernel writes the same into every
// process's list, while stat may name another device (btrfs, overlayfs).
static bool looked_at(struct search *s, const char *line)
{
	uint64_t from = gr_hex(&line), to = (line++, gr_hex(&line));
	const char *perms = line + 1, *p = perms;
	for (int blanks = 0; *p && blanks < 2; p++)
		blanks += *p == ' ';
	size_t len = 0;
	for (int blanks = 0; p[len]; len++)
		if (p[len] == ' ' && ++blanks == 2)
			break;
	if (s->tag[0])
		return perms[1] == 'w' && perms[3] == 's' && gr_strlen(s->tag) == len && !memcmp(p, s->tag, len);
	if (s->addr < from || s->addr >= to || len >= sizeof s->tag)
		return false;
	memcpy(s->tag, p, len);
	s->tag[len] = 0;
	return true;
}

// True when a line is the wanted one: of our own list the one that shows `addr`, of another process's a writable, shared view.
static bool in_maps(struct search *s, long pid)
{
	char text[LINE + 1];
	size_t have = 0;
	bool found = false, rest = false;
	long fd = open_of(pid, "maps", O_RDONLY), n;
	if (GR_IS_ERR(fd))
		return false;
	while (!found && (n = GR_RAW(SYS_read, fd, text + have, LINE - have)) > 0) {
		size_t start = 0;
		have += n;
		for (size_t i = 0; i < have && !found; i++) {
			if (text[i] != '\n')
				continue;
			text[i] = 0;
			found = !rest && looked_at(s, text + start);
			rest = false;
			start = i + 1;
		}
		if (!start && have == LINE) { // what matters stands at its beginning
			text[LINE] = 0;
			found = found || (!rest && looked_at(s, text));
			rest = true;
			have = 0;
			continue;
		}
		have -= start;
		memmove(text, text + start, have);
	}
	GR_RAW(SYS_close, fd);
	return found;
}

// ---------------------------------------------------------------- lists of descriptors
static bool may_write(long pid, const char *name)
{
	char path[80], text[128];
	gr_format(path, sizeof path, "fdinfo/%s", (uint64_t)name);
	long fd = open_of(pid, path, O_RDONLY), n;
	if (GR_IS_ERR(fd))
		return false;
	n = GR_RAW(SYS_read, fd, text, sizeof text - 1);
	GR_RAW(SYS_close, fd);
	if (n <= 0)
		return false;
	text[n] = 0;
	for (const char *p = text; *p; p++)
		if (!memcmp(p, "flags:", 6)) {
			uint64_t flags = 0;
			for (p += 6; *p == '\t' || *p == ' '; p++)
				;
			for (; *p >= '0' && *p <= '7'; p++)
				flags = flags << 3 | (uint64_t)(*p - '0');
			return !(flags & O_PATH) && (flags & O_ACCMODE) != O_RDONLY;
		}
	return false;
}

static bool in_descriptors(const struct search *s, long pid)
{
	char room[2048] __attribute__((aligned(8)));
	struct stat st;
	long dir = open_of(pid, "fd", O_RDONLY | O_DIRECTORY), n;
	bool found = false;
	if (GR_IS_ERR(dir))
		return false;
	while (!found && (n = GR_RAW(SYS_getdents64, dir, room, sizeof room)) > 0)
		for (long at = 0; at < n && !found;) {
			const struct dirent64 *entry = (const struct dirent64 *)(room + at);
			at += entry->len;
			found = number(entry->name) >= 0 && !GR_RAW(SYS_newfstatat, dir, entry->name, &st, 0) &&
				st.st_dev == s->dev && st.st_ino == s->ino && may_write(pid, entry->name);
		}
	GR_RAW(SYS_close, dir);
	return found;
}

// ---------------------------------------------------------------- processes
static long parent_of(long pid)
{
	char text[512];
	long fd = open_of(pid, "stat", O_RDONLY);
	if (GR_IS_ERR(fd))
		return 0;
	long n = GR_RAW(SYS_read, fd, text, sizeof text - 1), parent = 0;
	GR_RAW(SYS_close, fd);
	if (n <= 0)
		return 0;
	while (n && text[n - 1] != ')') // the command's name may hold anything
		n--;
	for (const char *p = text + n + 3; *p >= '0' && *p <= '9'; p++) // " S PARENT"
		parent = parent * 10 + (*p - '0');
	return parent;
}

static bool descends(long pid, long from)
{
	for (int i = 0; pid > 1 && i < ANCESTORS; i++, pid = parent_of(pid))
		if (pid == from)
			return true;
	return false;
}

bool gr_peer_find(uint64_t addr, uint64_t dev, uint64_t ino, struct gr_peer *ret)
{
	char room[4096] __attribute__((aligned(8)));
	struct search s = {.addr = addr, .dev = dev, .ino = ino};
	long self = gr_pid(), n;
	if (!in_maps(&s, self))
		return false;
	long proc = GR_RAW(SYS_openat, AT_FDCWD, "/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	if (GR_IS_ERR(proc))
		return false;
	*ret = (struct gr_peer){0};
	while (!ret->pid && (n = GR_RAW(SYS_getdents64, proc, room, sizeof room)) > 0)
		for (long at = 0; at < n && !ret->pid;) {
			const struct dirent64 *entry = (const struct dirent64 *)(room + at);
			long pid = number(entry->name);
			at += entry->len;
			if (pid <= 0 || pid == self)
				continue;
			ret->mapped = in_maps(&s, pid);
			if (ret->mapped || (in_descriptors(&s, pid) && !descends(pid, self) && !descends(self, pid)))
				ret->pid = pid;
		}
	GR_RAW(SYS_close, proc);
	return ret->pid != 0;
}

// A lease to read is given when nobody has the file open for writing, one to write when nobody else has. It is given back at
// once; who opens the file in between waits for that long, and the signal that tells us is one that nobody minds.
static int lease(int fd, long kind)
{
	GR_RAW(SYS_fcntl, fd, F_SETSIG, SIGURG);
	long ret = GR_RAW(SYS_fcntl, fd, F_SETLEASE, kind);
	if (ret == 0)
		GR_RAW(SYS_fcntl, fd, F_SETLEASE, F_UNLCK);
	return ret == 0 ? 0 : ret == -EAGAIN ? 1 : -1;
}

int gr_peer_writes(int fd, bool but_this)
{
	if (but_this) { // a lease of the program's own descriptor, which gets back what it had
		long has = GR_RAW(SYS_fcntl, fd, F_GETLEASE), owner = GR_RAW(SYS_fcntl, fd, F_GETOWN);
		long sig = GR_RAW(SYS_fcntl, fd, F_GETSIG);
		if (has != F_UNLCK || owner)
			return -1;
		int ret = lease(fd, F_WRLCK);
		GR_RAW(SYS_fcntl, fd, F_SETSIG, sig);
		GR_RAW(SYS_fcntl, fd, F_SETOWN, 0);
		return ret;
	}
	char link[40];
	gr_format(link, sizeof link, "/proc/self/fd/%d", (long)fd);
	long own = GR_RAW(SYS_openat, AT_FDCWD, link, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0);
	if (GR_IS_ERR(own))
		return -1;
	int ret = lease(own, F_RDLCK);
	GR_RAW(SYS_close, own);
	return ret;
}
