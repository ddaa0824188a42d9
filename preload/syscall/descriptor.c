// The classes of descriptors; see descriptor.h.
// Runs in: application threads.
// May call: raw system calls (while recording).
// Owns: the descriptor table.
#include "descriptor.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "../core/nolibc.h"
#include "../core/page.h"
#include "../core/raw.h"

static uint8_t table[GR_DESCRIPTORS]; // ^ GR_FD_NONE: where nothing is open there are zeros, and no memory
static uint32_t keys[GR_DESCRIPTORS];
static uint8_t actions[GR_DESCRIPTORS];
static uint8_t kinds[GR_DESCRIPTORS];
#define LARGE 0x80 // in front of a kind: a file of GR_LARGE bytes or more
static uint32_t openings[GR_DESCRIPTORS], opened;

_Static_assert((int)GR_CLASS_COUNT <= GR_FD_NONE, "class numbers fit beside the flags");

uint8_t gr_fd_get(uint64_t fd)
{
	return (fd < GR_DESCRIPTORS ? table[fd] : 0) ^ GR_FD_NONE;
}

void gr_fd_set(uint64_t fd, uint8_t value)
{
	if (fd < GR_DESCRIPTORS)
		__atomic_store_n(&table[fd], value ^ GR_FD_NONE, __ATOMIC_RELAXED);
}

static uint32_t key_of(const struct stat *st)
{
	if (!S_ISREG(st->st_mode) && !S_ISDIR(st->st_mode))
		return 0;
	uint64_t hash = gr_hash_word(gr_hash_word(GR_HASH_SEED, st->st_dev), st->st_ino);
	return (uint32_t)(hash ^ hash >> 32) | 1;
}

// Is it /proc/PID/mem, or /proc/PID/task/TID/mem, of this process?
static bool shows_memory(int fd, const struct stat *st)
{
	char link[40], path[80], own[32];
	if (!S_ISREG(st->st_mode) || st->st_size || (st->st_mode & 0777) != 0600 || st->st_dev >> 8)
		return false;
	gr_format(link, sizeof link, "/proc/self/fd/%d", (long)fd);
	long n = GR_RAW(SYS_readlink, link, path, sizeof path - 1);
	if (n < 4 || n == sizeof path - 1 || memcmp(path + n - 4, "/mem", 4))
		return false;
	gr_format(own, sizeof own, "/proc/%d/", gr_pid());
	return (size_t)n > gr_strlen(own) && !memcmp(path, own, gr_strlen(own));
}

enum gr_action gr_fd_rule(int fd)
{
	return (uint32_t)fd < GR_DESCRIPTORS ? actions[fd] : GR_ACT_RECORD;
}

enum gr_kind gr_fd_kind(int fd)
{
	return (uint32_t)fd < GR_DESCRIPTORS ? kinds[fd] & ~LARGE : GR_KIND_COUNT;
}

bool gr_fd_large(int fd)
{
	if ((uint32_t)fd >= GR_DESCRIPTORS)
		return false;
	if (!keys[fd] && (gr_fd_get(fd) & GR_FD_CLASS) == GR_CLASS_file) // one that was inherited
		gr_fd_probe(fd);
	return kinds[fd] & LARGE;
}

uint32_t gr_fd_key(int fd)
{
	return (uint32_t)fd < GR_DESCRIPTORS ? keys[fd] : 0;
}

uint32_t gr_file_key(int dirfd, uint64_t path, int flags)
{
	struct stat st;
	return GR_RAW(SYS_newfstatat, dirfd, path, &st, flags) ? 0 : key_of(&st);
}

uint8_t gr_fd_probe(int fd)
{
	struct stat st;
	if (GR_RAW(SYS_fstat, fd, &st))
		return GR_FD_NONE;
	enum gr_kind kind = gr_kind_of(&st);
	if ((uint32_t)fd < GR_DESCRIPTORS) {
		keys[fd] = shows_memory(fd, &st) ? GR_KEY_MEMORY : key_of(&st);
		kinds[fd] = kind | (S_ISREG(st.st_mode) && st.st_size >= GR_LARGE ? LARGE : 0);
	}
	return gr_kind_class(kind);
}

bool gr_fd_makes(const struct gr_call *call)
{
	int count;
	const struct gr_fx *fx = gr_call_fx(call, &count);
	for (int i = 0; i < count && fx[i].kind; i++)
		if (fx[i].kind == GR_FX_MAKES || fx[i].kind == GR_FX_MAKES_AT)
			return true;
	return false;
}

bool gr_fd_numbers(const struct gr_call *call)
{
	if (call->nr == SYS_fcntl)
		return call->arg[1] == F_DUPFD || call->arg[1] == F_DUPFD_CLOEXEC;
	return call->nr == SYS_dup || gr_fd_makes(call);
}

void gr_fd_advance(const struct gr_call *call)
{
	const uint64_t *a = call->arg;
	int fd = -1;
	if (call->nr == SYS_sendfile && !a[2])
		fd = a[1];
	else if ((call->nr == SYS_splice || call->nr == SYS_copy_file_range) && !a[1])
		fd = a[0];
	uint8_t entry = gr_fd_get(fd);
	if (call->result > 0 && fd >= 0 && (entry & GR_FD_CLASS) != GR_FD_NONE && !(entry & GR_FD_RECORDED))
		GR_RAW(SYS_lseek, fd, call->result, SEEK_CUR);
}

uint32_t gr_fd_native(uint32_t fd)
{
	for (; fd < GR_DESCRIPTORS; fd++) {
		uint64_t eight = 1;
		if (fd % sizeof eight == 0)
			memcpy(&eight, &table[fd], sizeof eight);
		if (!eight) { // most are not open
			fd += sizeof eight - 1;
			continue;
		}
		uint8_t entry = gr_fd_get(fd);
		bool there = (entry & GR_FD_CLASS) != GR_FD_NONE && !(entry & GR_FD_RECORDED);
		enum gr_kind kind = gr_fd_kind(fd);
		if (there && (kind == GR_KIND_regular || kind == GR_KIND_directory))
			return fd;
	}
	return GR_DESCRIPTORS;
}

uint32_t gr_fd_opening(uint32_t fd)
{
	return openings[fd];
}

static uint32_t given; // others have openings of ours

bool gr_fd_given(void)
{
	return __atomic_load_n(&given, __ATOMIC_RELAXED);
}

static void adopt(int fd)
{
	if (gr_mode == GR_MODE_RECORD)
		gr_fd_probe(fd); // which file it is
	gr_fd_set(fd, GR_CLASS_pipe | GR_FD_RECORDED);
}

static void received(const struct msghdr *msg)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR((struct msghdr *)msg, c)) {
		if (c->cmsg_level != SOL_SOCKET || (c->cmsg_type != SCM_RIGHTS && c->cmsg_type != 4)) // 4: SCM_PIDFD
			continue;
		for (size_t i = 0; i < (c->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++)
			adopt(((int *)CMSG_DATA(c))[i]);
	}
}

static bool is_native_file(uint64_t fd)
{
	uint8_t entry = gr_fd_get(fd), cls = entry & GR_FD_CLASS;
	return cls != GR_FD_NONE && cls != GR_CLASS_device && !(entry & GR_FD_RECORDED);
}

void gr_fd_inherited(void)
{
	__atomic_store_n(&given, 1, __ATOMIC_RELAXED);
	for (uint64_t fd = 0; fd < GR_DESCRIPTORS; fd++)
		if (is_native_file(fd))
			actions[fd] = GR_ACT_RECORD;
}

// Copies have the same key; another descriptor of the same file is recorded in vain.
static void sent(const struct msghdr *msg)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR((struct msghdr *)msg, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		__atomic_store_n(&given, 1, __ATOMIC_RELAXED);
		for (size_t i = 0; i < (c->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++)
			for (uint64_t fd = 0; fd < GR_DESCRIPTORS; fd++)
				if (is_native_file(fd) && keys[fd] == gr_fd_key(((int *)CMSG_DATA(c))[i]))
					actions[fd] = GR_ACT_RECORD;
	}
}

void gr_fd_sent(const struct gr_call *call)
{
	if (call->result < 0)
		return;
	if (call->nr == SYS_sendmsg)
		sent((const struct msghdr *)call->arg[1]);
	else if (call->nr == SYS_sendmmsg)
		for (long i = 0; i < call->result; i++)
			sent(&((const struct mmsghdr *)call->arg[1])[i].msg_hdr);
}

void gr_fd_received(const struct gr_call *call)
{
	if (call->result < 0)
		return;
	if (call->nr == SYS_recvmsg)
		received((const struct msghdr *)call->arg[1]);
	else if (call->nr == SYS_recvmmsg)
		for (long i = 0; i < call->result; i++)
			received(&((const struct mmsghdr *)call->arg[1])[i].msg_hdr);
}

static void make(uint64_t fd, uint8_t cls, uint8_t action)
{
	gr_fd_set(fd, cls);
	if (fd < GR_DESCRIPTORS)
		actions[fd] = action;
	if (gr_mode == GR_MODE_REPLAY && action != GR_ACT_RECORD) {
		gr_fd_probe(fd); // the kernel's word for what it is, not the demo's
		if (fd < GR_DESCRIPTORS)
			openings[fd] = ++opened;
	}
}

static void copy(uint64_t from, uint64_t to)
{
	gr_fd_set(to, gr_fd_get(from));
	if (from < GR_DESCRIPTORS && to < GR_DESCRIPTORS)
		keys[to] = keys[from], actions[to] = actions[from], kinds[to] = kinds[from], openings[to] = openings[from];
}

void gr_fd_update(const struct gr_call *call, uint8_t cls)
{
	if (call->nr == SYS_fcntl && gr_fd_numbers(call) && call->result >= 0)
		copy(call->arg[0], call->result);
	int count;
	const struct gr_fx *effects = gr_call_fx(call, &count);
	for (int i = 0; i < count && effects[i].kind; i++) {
		const struct gr_fx *fx = &effects[i];
		uint64_t first = fx->arg ? call->arg[fx->arg - 1] : 0;
		switch ((enum gr_fx_kind)fx->kind) {
		case GR_FX_CLOSES: // also when it fails: Linux releases the number first
			gr_fd_set(first, GR_FD_NONE);
			break;
		case GR_FX_COMPARE: // whether it makes one is seen by what it made
		case GR_FX_MAKES:
			if (call->result >= 0 && (fx->kind == GR_FX_MAKES || cls))
				make(call->result, cls, call->action);
			break;
		case GR_FX_MAKES_AT:
			for (uint32_t n = 0; call->result >= 0 && n < fx->scale; n++)
				make(((int *)first)[n], cls, call->action);
			break;
		case GR_FX_DUPS:
			if (call->result >= 0)
				copy(first, call->result);
			break;
		case GR_FX_DUPS_TO:
			if (call->result >= 0)
				copy(first, call->arg[fx->len_arg - 1]);
			break;
		default:
			break;
		}
	}
}

void gr_fd_standard(const uint8_t classes[3])
{
	static const uint8_t marks[3] = {GR_FD_RECORDED, GR_FD_RECORDED | GR_FD_OUT, GR_FD_RECORDED | GR_FD_ERR};
	for (int fd = 0; fd < 3; fd++)
		gr_fd_set(fd, classes[fd] == GR_FD_NONE ? GR_FD_NONE : classes[fd] | marks[fd]);
}
