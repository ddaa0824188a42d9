// What happens to a call: decided from its class, its descriptors, its path and the profile's rules.
// Runs in: application threads while recording, on the engine's stack.
// May call: core.
// Owns: which files the program or its children may have changed.
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "../../core/copy.h"
#include "../../core/nolibc.h"
#include "../../core/page.h"
#include "../../core/raw.h"
#include "../descriptor.h"
#include "input.h"

#define PATH_SIZE 4096
#define CHANGED_BITS 0x10000

static uint64_t changed[CHANGED_BITS / 64]; // files that were written, directories with other entries
static uint64_t made[CHANGED_BITS / 64];    // what has a name that it did not have before
static uint32_t children;
static uint32_t in_made; // the directory of the process is such a one

static void mark(uint64_t *set, uint32_t key)
{
	if (key)
		__atomic_fetch_or(&set[key % CHANGED_BITS / 64], 1ULL << key % 64, __ATOMIC_RELAXED);
}

static bool is_marked(const uint64_t *set, uint32_t key)
{
	return __atomic_load_n(&set[key % CHANGED_BITS / 64], __ATOMIC_RELAXED) >> key % 64 & 1;
}

void gr_rule_children(void)
{
	__atomic_store_n(&children, 1, __ATOMIC_RELAXED);
}

// ---------------------------------------------------------------- paths
// The first path of a call and the directory it starts from; false when it takes none.
static bool path_of(const struct gr_call *call, int *dirfd, uint64_t *path)
{
	*dirfd = AT_FDCWD;
	for (int i = 0; i < GR_FX_MAX && call->sys->fx[i].kind; i++) {
		const struct gr_fx *fx = &call->sys->fx[i];
		if (fx->kind == GR_FX_FD)
			*dirfd = (int)call->arg[fx->arg - 1];
		if (fx->kind == GR_FX_STR) {
			*path = call->arg[fx->arg - 1];
			return *path != 0;
		}
	}
	return false;
}

static size_t read_string(char *dst, size_t size, uint64_t src)
{
	size_t n = 0;
	while (n < size) {
		size_t want = 4096 - ((src + n) & 4095);
		want = want < size - n ? want : size - n;
		size_t got = gr_peek(dst + n, src + n, want);
		for (size_t i = n; i < n + got; i++)
			if (!dst[i])
				return i;
		n += got;
		if (got < want)
			break;
	}
	return 0;
}

// Where a relative path begins.
static size_t base_of(char *dst, size_t size, int dirfd)
{
	if (dirfd == AT_FDCWD) {
		long n = GR_RAW(SYS_getcwd, dst, size);
		return GR_IS_ERR(n) ? 0 : n - 1;
	}
	char link[40];
	gr_format(link, sizeof link, "/proc/self/fd/%d", (long)dirfd);
	long n = GR_RAW(SYS_readlinkat, AT_FDCWD, link, dst, size);
	return GR_IS_ERR(n) ? 0 : n;
}

// The path as text from the root on, without ".", ".." and doubled slashes; links are not followed. Empty if it is too long.
static size_t absolute(char *dst, int dirfd, uint64_t path)
{
	size_t n = 0;
	char *raw = dst + PATH_SIZE; // the second half of the buffer
	size_t len = read_string(raw, PATH_SIZE, path);
	if (!len)
		return 0;
	if (raw[0] != '/') {
		n = base_of(dst, PATH_SIZE - 1, dirfd);
		if (n == 1)
			n = 0; // the root itself
	}
	for (size_t i = 0; i < len;) {
		size_t start = i;
		while (i < len && raw[i] != '/')
			i++;
		size_t part = i - start;
		i++;
		if (!part || (part == 1 && raw[start] == '.'))
			continue;
		if (part == 2 && raw[start] == '.' && raw[start + 1] == '.') {
			while (n && dst[--n] != '/')
				;
			continue;
		}
		if (n + part + 2 > PATH_SIZE)
			return 0;
		dst[n++] = '/';
		memmove(dst + n, raw + start, part);
		n += part;
	}
	dst[n] = 0;
	return n;
}

// `*` and `?` stay within one name, `**` does not. "/proc/**" is also /proc itself.
static bool matches(const char *pattern, const char *text)
{
	while (*pattern) {
		if (pattern[0] == '/' && pattern[1] == '*' && pattern[2] == '*' && !pattern[3])
			return !*text || *text == '/';
		if (*pattern == '*') {
			bool deep = pattern[1] == '*';
			pattern += deep ? 2 : 1;
			for (;; text++) {
				if (matches(pattern, text))
					return true;
				if (!*text || (*text == '/' && !deep))
					return false;
			}
		}
		if (!*text || (*pattern == '?' ? *text == '/' : *pattern != *text))
			return false;
		pattern++;
		text++;
	}
	return !*text;
}

// The action of the first rule that fits, or -1. A rule is its action as a letter and its pattern, NUL behind it.
static int rule_for(int dirfd, uint64_t path)
{
	char buffer[2 * PATH_SIZE];
	if (!gr_ctl->rules[0] || !absolute(buffer, dirfd, path))
		return -1;
	for (const char *rule = gr_ctl->rules; *rule; rule += gr_strlen(rule) + 1)
		if (matches(rule + 1, buffer))
			return *rule - 'a';
	return -1;
}

// ---------------------------------------------------------------- files that change
static uint64_t open_flags(const struct gr_call *call)
{
	uint64_t how = 0;
	switch (call->nr) {
	case SYS_creat:
		return O_CREAT | O_WRONLY | O_TRUNC;
	case SYS_open:
		return call->arg[1];
	case SYS_openat:
		return call->arg[2];
	case SYS_openat2:
		gr_peek(&how, call->arg[2], sizeof how);
	}
	return how;
}

// True for a call that opens a file in order to change it.
static bool opens_to_write(const struct gr_call *call)
{
	uint64_t how = open_flags(call);
	return how & (O_ACCMODE | O_CREAT | O_TRUNC) || (how & O_TMPFILE) == O_TMPFILE;
}

bool gr_rule_writes(const struct gr_call *call)
{
	return opens_to_write(call);
}

static bool creates(const struct gr_call *call)
{
	return open_flags(call) & O_CREAT;
}

// A file that is changed, and the directory around it where its entries may be others now.
static void mark_path(const struct gr_call *call, int dirfd, uint64_t path, bool entries)
{
	char buffer[2 * PATH_SIZE];
	size_t n = absolute(buffer, dirfd, path);
	if (!n)
		return;
	gr_input_changed(call->self, buffer);
	while (buffer[n - 1] != '/')
		n--;
	buffer[n > 1 ? n - 1 : 1] = 0;
	mark(changed, gr_file_key(AT_FDCWD, (uint64_t)buffer, 0));
	if (entries)
		gr_input_changed(call->self, buffer);
}

static bool some_native(void)
{
	return gr_ctl->class_action[GR_CLASS_file] != GR_ACT_RECORD || gr_ctl->rules[0] || gr_kind_some(GR_CLASS_file);
}

// Paths lead to other files from here on.
bool gr_rule_moves_root(long nr)
{
	return nr == SYS_chroot || nr == SYS_pivot_root || nr == SYS_mount || nr == SYS_umount2 || nr == 429; // move_mount
}

void gr_rule_done(const struct gr_call *call)
{
	if (GR_IS_ERR(call->result) || !some_native())
		return;
	if (gr_rule_moves_root(call->nr))
		gr_rule_children();
	bool opened = opens_to_write(call);
	if (opened)
		mark(changed, gr_fd_key(call->result));
	if (!opened && !(call->sys->flags & GR_SF_IRREVOCABLE && call->sys->cls == GR_CLASS_file))
		return;
	int dirfd = AT_FDCWD;
	for (int i = 0; i < GR_FX_MAX && call->sys->fx[i].kind; i++) { // rename and link have two paths
		const struct gr_fx *fx = &call->sys->fx[i];
		if (fx->kind == GR_FX_FD)
			dirfd = (int)call->arg[fx->arg - 1];
		if (fx->kind != GR_FX_STR)
			continue;
		uint64_t path = call->arg[fx->arg - 1];
		uint32_t key = gr_file_key(dirfd, path, AT_SYMLINK_NOFOLLOW);
		mark(changed, key);
		mark(made, key);
		mark_path(call, dirfd, path, !opened || creates(call));
	}
}

// Relative paths of native calls begin there.
void gr_rule_chdir(const struct gr_call *call, struct gr_stores *stores)
{
	char cwd[PATH_SIZE];
	if ((call->nr != SYS_chdir && call->nr != SYS_fchdir) || call->result || !some_native())
		return;
	__atomic_store_n(&in_made, is_marked(made, gr_file_key(AT_FDCWD, (uint64_t)".", 0)), __ATOMIC_RELAXED);
	long n = GR_RAW(SYS_getcwd, cwd, sizeof cwd);
	if (!GR_IS_ERR(n))
		gr_store_add(stores, GR_STORE_CHDIR, 0, n, 0, cwd);
}

// ---------------------------------------------------------------- the decision
// A call that takes a path: a descriptor that it makes has the mode of its kind, and a file that is not there, that is no
// file, or that the program or its children may have changed cannot be looked at again.
static enum gr_action for_path(const struct gr_call *call, enum gr_action action)
{
	int dirfd;
	uint64_t path;
	struct stat st;
	if (call->sys->cls != GR_CLASS_file || !path_of(call, &dirfd, &path))
		return opens_to_write(call) ? GR_ACT_RECORD : action;
	if (action == GR_ACT_RECORD && !gr_ctl->rules[0] && !gr_kind_some(GR_CLASS_COUNT))
		return action;
	bool there = GR_RAW(SYS_newfstatat, dirfd, path, &st, 0) == 0;
	enum gr_kind kind = there ? gr_kind_of(&st) : GR_KIND_COUNT;
	bool device = gr_kind_class(kind) == GR_CLASS_device;
	if (there && gr_fd_makes(call) && (device || gr_kind_rule(kind) >= 0))
		action = gr_kind_action(kind);
	int rule = rule_for(dirfd, path);
	if (rule >= 0)
		action = rule;
	if (action != GR_ACT_NATIVE)
		return action == GR_ACT_IGNORE && !device && opens_to_write(call) ? GR_ACT_RECORD : action;
	if (device)
		return action;
	if (opens_to_write(call) || !there || (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)))
		return GR_ACT_RECORD;
	char start = 0;
	gr_peek(&start, path, 1);
	if (dirfd == AT_FDCWD && start != '/' && __atomic_load_n(&in_made, __ATOMIC_RELAXED))
		return GR_ACT_RECORD; // the way to it begins in a directory that a replay does not have
	if (__atomic_load_n(&children, __ATOMIC_RELAXED) || is_marked(changed, gr_file_key(dirfd, path, 0)))
		return GR_ACT_RECORD;
	return action;
}

static bool is_plain_fcntl(uint64_t what)
{
	return what == F_DUPFD || what == F_DUPFD_CLOEXEC || what == F_GETFD || what == F_SETFD;
}

// INVARIANT(replay-changes-nothing): what goes to the program's own output, every file that is opened for writing and
// every call that changes the world is recorded whatever the profile says, or each copy of a replay would do it again.
// Devices are the exception, because a profile must ask for it.
// INVARIANT(no-snowball): a call that names one recorded descriptor is recorded, so no number of the demo ever reaches
// the kernel of a replay; a number that nobody knows counts as recorded.
enum gr_action gr_rule_action(const struct gr_call *call)
{
	const struct gr_sys *sys = call->sys;
	enum gr_action action = gr_ctl->sys_action[call->nr];
	bool first = true, device = false;
	if (sys->cls == GR_CLASS_memory || sys->cls == GR_CLASS_thread)
		return GR_ACT_NATIVE;
	for (int i = 0; i < GR_FX_MAX && call->sys->fx[i].kind; i++) {
		if (sys->fx[i].kind != GR_FX_FD)
			continue;
		long fd = (int)call->arg[sys->fx[i].arg - 1];
		uint8_t entry = gr_fd_get(fd);
		if (fd < 0 && !(sys->flags & GR_SF_BY_FD))
			continue; // AT_FDCWD and its kin
		if (entry & GR_FD_RECORDED || (entry & GR_FD_CLASS) == GR_FD_NONE)
			return GR_ACT_RECORD;
		if (first && sys->flags & GR_SF_BY_FD) {
			device = (entry & GR_FD_CLASS) == GR_CLASS_device;
			action = gr_fd_rule(fd);
		}
		first = false;
	}
	if (call->nr == SYS_fcntl && !is_plain_fcntl(call->arg[1]))
		return GR_ACT_RECORD;
	if (call->nr == SYS_ioctl && call->arg[1] == FIONBIO)
		return GR_ACT_RECORD; // as fcntl's flags: a replay may set none (tables/fence.def)
	if (call->nr == SYS_chdir || call->nr == SYS_fchdir || call->nr == SYS_getcwd || call->nr == SYS_openat2)
		return GR_ACT_RECORD; // openat2: a replay's fence cannot look at its flags
	if (call->nr == SYS_statfs || call->nr == SYS_fstatfs || call->nr == SYS_ustat) // how much is free is nothing that a file has
		return GR_ACT_RECORD;
	action = for_path(call, action);
	return sys->flags & GR_SF_IRREVOCABLE && !device ? GR_ACT_RECORD : action;
}

// INVARIANT(profile-bounds-demo): a demo is untrusted, so what it says about a call is believed only where the profile, which
// was shown to the user, has a choice at all; and nothing that changes the world is ever made on replay.
bool gr_rule_allows(const struct gr_call *call)
{
	const struct gr_sys *sys = call->sys;
	bool free = gr_ctl->sys_action[call->nr] != GR_ACT_RECORD || gr_ctl->rules[0];
	bool asked = false;
	if (sys->cls == GR_CLASS_memory || sys->cls == GR_CLASS_thread)
		return true;
	for (int i = 0; i < GR_FX_MAX && call->sys->fx[i].kind; i++)
		if (sys->fx[i].kind == GR_FX_FD && sys->flags & GR_SF_BY_FD) {
			enum gr_kind kind = gr_fd_kind((int)call->arg[sys->fx[i].arg - 1]);
			bool chosen = gr_kind_action(kind) != GR_ACT_RECORD;
			asked = chosen && gr_kind_class(kind) == GR_CLASS_device;
			free = free || chosen;
			break;
		}
	if (sys->flags & GR_SF_IRREVOCABLE)
		return asked;
	if (opens_to_write(call))
		return gr_kind_some(GR_CLASS_device);
	return free || (gr_fd_makes(call) && gr_kind_some(GR_CLASS_COUNT));
}
