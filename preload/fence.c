// The fence; see fence.h. Three parts: no privileges, Landlock where the kernel has it, a seccomp filter.
// Runs in: gdbrr-launch, in the process that is about to become the program.
// May call: libc.
// Owns: the rules of tables/fence.def and their translation for the kernel.
//
// INVARIANT(every-replay-is-fenced): the launcher raises the fence by the mode of the control page, before the exec.
// There is no option for it, and nothing in a demo is asked.
//
// The filter knows no instruction pointers: what can make the program jump can make it jump to the engine's gate.
// So the engine may do no more than the program. The program's own calls never come here while Syscall User
// Dispatch is armed, which looks first.
//
// INVARIANT(fence-is-a-list): what is not in tables/fence.def is refused, so a call that a newer kernel brings is, too.

#define _GNU_SOURCE
#include "fence.h"

#include "abi.h"
#include "syscall/effects.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <termios.h>
#include <unistd.h>

enum {
	LANDLOCK_CREATE = 444, // numbers of system calls that older headers lack
	LANDLOCK_ADD = 445,
	LANDLOCK_RESTRICT = 446,
};

const char *gr_fence_name(enum gr_fence_part part)
{
	static const char *const names[] = {"nothing", "giving up privileges", "Landlock", "a seccomp filter"};
	return names[part];
}

// ---------------------------------------------------------------- privileges
// Root keeps what reading inputs and locking memory as recorded takes; the debug registers need a privilege only where
// perf_event_paranoid says so.
static bool privileges_drop(void)
{
	struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct caps[2];
	uint64_t keep = 1ULL << CAP_DAC_READ_SEARCH | 1ULL << CAP_IPC_LOCK;
	FILE *file = fopen("/proc/sys/kernel/perf_event_paranoid", "re");
	int paranoid = 2;
	if (file && fscanf(file, "%d", &paranoid) == 1 && paranoid > 2)
		keep |= 1ULL << 38; // CAP_PERFMON
	if (file)
		fclose(file);
	// An exec gives root all of the bounding set, and one that gives anything switches the randomisation of addresses on
	// again. So the bounding set goes first; who may not lower it keeps what the container left him.
	for (int cap = 0; prctl(PR_CAPBSET_READ, cap) >= 0; cap++)
		if (!(keep >> cap & 1) && prctl(PR_CAPBSET_READ, cap) > 0 && prctl(PR_CAPBSET_DROP, cap) < 0)
			return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
	if (syscall(SYS_capget, &header, caps) < 0)
		return false;
	for (int i = 0; i < 2; i++) {
		caps[i].permitted &= (uint32_t)(keep >> (32 * i));
		caps[i].effective &= caps[i].permitted;
		caps[i].inheritable = 0;
	}
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && syscall(SYS_capset, &header, caps) == 0;
}

// ---------------------------------------------------------------- Landlock
// As of version 7 (Linux 6.15); the kernel takes what it does not know yet if it is zero.
struct landlock_rules { uint64_t files, net, scoped; };

enum {
	FILES_READ = 1 << 2,
	FILES_1 = 0x1ff2 | FILES_READ, // write, remove, make anything, read a file; not execute, read a directory
	FILES_REFER = 1 << 13,
	FILES_TRUNCATE = 1 << 14,
	FILES_DEVICES = 1 << 15, // ioctl
	NET_ALL = 3,             // bind, connect
	SCOPED_ALL = 3,          // abstract sockets, signals
	RULE_PATH = 1,
};

// The version of Landlock; 0 where there is none.
static int landlock_version(void)
{
	long version = syscall(LANDLOCK_CREATE, NULL, 0, 1);
	return version > 0 ? (int)version : 0;
}

// Files below this name may be read. A name that cannot be opened needs no permission.
static void landlock_readable(int rules, int dir, const char *name)
{
	struct { uint64_t files; int32_t fd; } __attribute__((packed)) below = {FILES_READ, openat(dir, name, O_PATH | O_CLOEXEC)};
	if (below.fd < 0)
		return;
	syscall(LANDLOCK_ADD, rules, RULE_PATH, &below, 0);
	close(below.fd);
}

// All files but the devices: reading a terminal takes what its user types, and others do something when they are opened.
// INVARIANT(no-terminal-by-name): of /dev only these may be read. Landlock knows no exceptions, so everything else is named.
static void landlock_files(int rules)
{
	static const char *const devices[] = {"null", "zero", "full", "random", "urandom", "shm"};
	DIR *root = opendir("/");
	for (struct dirent *entry; root && (entry = readdir(root));)
		if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..") && strcmp(entry->d_name, "dev"))
			landlock_readable(rules, dirfd(root), entry->d_name);
	if (root)
		closedir(root);
	int dev = open("/dev", O_PATH | O_DIRECTORY | O_CLOEXEC);
	for (unsigned i = 0; dev >= 0 && i < sizeof devices / sizeof *devices; i++)
		landlock_readable(rules, dev, devices[i]);
	if (dev >= 0)
		close(dev);
}

static bool landlock_raise(int version)
{
	struct landlock_rules rules = {
		.files = FILES_1 | (version >= 2 ? FILES_REFER : 0) | (version >= 3 ? FILES_TRUNCATE : 0) |
			 (version >= 5 ? FILES_DEVICES : 0),
		.net = version >= 4 ? NET_ALL : 0,
		.scoped = version >= 6 ? SCOPED_ALL : 0,
	};
	int fd = (int)syscall(LANDLOCK_CREATE, &rules, sizeof rules, 0);
	if (fd < 0)
		return false;
	landlock_files(fd);
	bool done = syscall(LANDLOCK_RESTRICT, fd, 0) == 0;
	close(fd);
	return done;
}

// ---------------------------------------------------------------- limits
// Of a user's processes the kernel counts all, so the limit is what runs now and what a replay may add. Root has no such
// limit; the controller counts as well (gdbrr/launch/crowd.py). Where memory runs out, a replay goes rather than anything else; of a
// timeline's processes the controller decides which.
static void limits_lower(bool copies, uint32_t tasks)
{
	struct rlimit limit;
	unsigned long running = 0;
	FILE *file = fopen("/proc/loadavg", "re");
	if (file && fscanf(file, "%*s %*s %*s %*u/%lu", &running) == 1 && getrlimit(RLIMIT_NPROC, &limit) == 0 &&
	    limit.rlim_max > running + tasks) {
		limit.rlim_max = running + tasks;
		if (limit.rlim_cur > limit.rlim_max)
			limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NPROC, &limit);
	}
	if (file)
		fclose(file);
	file = copies ? NULL : fopen("/proc/self/oom_score_adj", "we");
	if (file) {
		fputs("500", file);
		fclose(file);
	}
}

// ---------------------------------------------------------------- the filter
enum rule {
	ALLOW, REFUSE, ABSENT,
	ONCE,     // only while a tracer answers
	CLONE,    // threads of the same kind as the program's; in a timeline also plain copies
	SIGNAL,   // arguments 1 and 3 are process and signal
	READ,     // the flags of an open
	FCNTL, IOCTL, PRCTL,
	MEMORY,   // argument 1 is this process, unless Landlock keeps the others out of reach
	LOOK,     // the same, but for a timeline's copies, which the filter cannot know: /proc shows them the others' memory anyway
	PERF,     // argument 2 is a thread, and as LOOK
	OWN,      // argument 1 is 0: the caller itself
	LIMITS,
};

static const struct { const char *name; enum rule rule; } rows[] = {
#define FENCE(name, rule, why) {#name, rule},
#include "tables/fence.def"
#undef FENCE
};

#define PROGRAM_MAX 2048

struct program {
	struct sock_filter code[PROGRAM_MAX];
	unsigned short len;
	int landlock;
	bool copies;
	uint32_t pid;
};

static void emit(struct program *p, uint16_t code, uint32_t k, uint8_t jt, uint8_t jf)
{
	if (p->len < PROGRAM_MAX)
		p->code[p->len++] = (struct sock_filter){code, jt, jf, k};
}

static void answer(struct program *p, uint32_t action)
{
	emit(p, BPF_RET | BPF_K, action, 0, 0);
}

#define REFUSAL (SECCOMP_RET_ERRNO | EPERM)
#define NO_SUCH_CALL (SECCOMP_RET_ERRNO | ENOSYS)

static void load(struct program *p, unsigned offset)
{
	emit(p, BPF_LD | BPF_W | BPF_ABS, offset, 0, 0);
}

// The low half of argument `n`, counted from 1. Every kernel argument that is judged here is 32 bits wide but clone's flags
// and prlimit's pointer, whose high halves are judged too.
static void load_arg(struct program *p, unsigned n)
{
	load(p, offsetof(struct seccomp_data, args) + 8 * (n - 1));
}

static void load_high(struct program *p, unsigned n)
{
	load(p, offsetof(struct seccomp_data, args) + 8 * (n - 1) + 4);
}

// What was loaded: `action` if it is `value`; else the next instruction.
static void when_equal(struct program *p, uint32_t value, uint32_t action)
{
	emit(p, BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1);
	answer(p, action);
}

static void when_not_equal(struct program *p, uint32_t value, uint32_t action)
{
	emit(p, BPF_JMP | BPF_JEQ | BPF_K, value, 1, 0);
	answer(p, action);
}

static void when_any_bit(struct program *p, uint32_t bits, uint32_t action)
{
	emit(p, BPF_JMP | BPF_JSET | BPF_K, bits, 0, 1);
	answer(p, action);
}

// The loaded word: `action` unless it is one of `values`.
static void unless_one_of(struct program *p, const uint32_t *values, unsigned count, uint32_t action)
{
	for (unsigned i = 0; i < count; i++)
		when_equal(p, values[i], SECCOMP_RET_ALLOW);
	answer(p, action);
}
#define UNLESS_ONE_OF(p, values, action) unless_one_of(p, values, sizeof(values) / sizeof *(values), action)

#define THREAD (CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD)
#define THREAD_DETAILS (0xff | CLONE_SYSVSEM | CLONE_SETTLS | CLONE_PARENT_SETTID | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | \
	CLONE_DETACHED)

static void clone_rule(struct program *p)
{
	load_high(p, 1);
	when_not_equal(p, 0, REFUSAL);
	load_arg(p, 1);
	if (p->copies) // a checkpoint and a leaf; their exit signal is the original's
		when_equal(p, CLONE_PARENT | SIGCHLD, SECCOMP_RET_ALLOW);
	when_any_bit(p, ~(uint32_t)(THREAD | THREAD_DETAILS), REFUSAL);
	emit(p, BPF_ALU | BPF_AND | BPF_K, THREAD, 0, 0);
	when_equal(p, THREAD, SECCOMP_RET_ALLOW);
	answer(p, REFUSAL);
}

// A filter cannot know the process that it is in, and copies inherit this one. With Landlock 6 the kernel keeps signals
// inside; without, only the first process may raise them, and the others may ask for a thread's life (signal 0).
// Nothing in a replay stops itself: the controller would wait for it.
static void signal_rule(struct program *p)
{
	static const uint32_t stopping[] = {SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU};
	load_arg(p, 3);
	when_equal(p, 0, SECCOMP_RET_ALLOW);
	for (unsigned i = 0; i < sizeof stopping / sizeof *stopping; i++)
		when_equal(p, stopping[i], REFUSAL);
	if (p->landlock < 6) {
		load_arg(p, 1);
		when_not_equal(p, p->pid, REFUSAL);
	}
	answer(p, SECCOMP_RET_ALLOW);
}

static void fcntl_rule(struct program *p)
{
	static const uint32_t allowed[] = {
		F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD, F_SETFD, F_GETFL, F_GETOWN, F_GETSIG, 16 /* F_GETOWN_EX */, F_GETLEASE, F_GETPIPE_SZ,
		1034 /* F_GET_SEALS */,
	};
	load_arg(p, 2);
	UNLESS_ONE_OF(p, allowed, REFUSAL);
}

static void ioctl_rule(struct program *p)
{
	static const uint32_t allowed[] = {
		TCGETS, 0x802c542a /* TCGETS2 */, TIOCGWINSZ, TIOCGPGRP, TIOCGSID, FIONREAD, TIOCOUTQ, FIOCLEX, FIONCLEX,
		0x2400, 0x2401, 0x2402, 0x2403, 0x2405, 0x40082404, 0x80082407, /* PERF_EVENT_IOC_: enable ... id */
		0xc0606610, /* PAGEMAP_SCAN */
	};
	load_arg(p, 2);
	UNLESS_ONE_OF(p, allowed, REFUSAL);
}

static void prctl_rule(struct program *p)
{
	static const uint32_t allowed[] = {
		PR_SET_NAME, PR_GET_NAME, PR_SET_TSC, PR_GET_TSC, PR_GET_PDEATHSIG, PR_GET_DUMPABLE, PR_GET_KEEPCAPS, PR_GET_TIMERSLACK,
		PR_GET_SECCOMP, PR_CAPBSET_READ, PR_GET_NO_NEW_PRIVS, PR_GET_THP_DISABLE, PR_GET_TID_ADDRESS,
		59 /* PR_SET_SYSCALL_USER_DISPATCH */, 0x53564d41 /* PR_SET_VMA: names of own memory */,
		0x59616d61 /* PR_SET_PTRACER: a debugger may look at a copy */,
	};
	load_arg(p, 1); // dying with the controller is all that may be asked for: another signal would leave the replay behind
	emit(p, BPF_JMP | BPF_JEQ | BPF_K, PR_SET_PDEATHSIG, 0, 4);
	load_arg(p, 2);
	when_equal(p, SIGKILL, SECCOMP_RET_ALLOW);
	answer(p, REFUSAL);
	UNLESS_ONE_OF(p, allowed, REFUSAL);
}

static void read_rule(struct program *p, unsigned flags)
{
	load_arg(p, flags);
	// O_TMPFILE is O_DIRECTORY and a bit of its own; it comes with an access mode that writes.
	when_any_bit(p, O_ACCMODE | O_CREAT | O_TRUNC, REFUSAL);
	answer(p, SECCOMP_RET_ALLOW);
}

static void rule_emit(struct program *p, const struct gr_sys *sys, enum rule rule)
{
	switch (rule) {
	case ALLOW:
		answer(p, SECCOMP_RET_ALLOW);
		break;
	case REFUSE:
		answer(p, REFUSAL);
		break;
	case ABSENT:
		answer(p, NO_SUCH_CALL);
		break;
	case ONCE:
		answer(p, SECCOMP_RET_TRACE);
		break;
	case CLONE:
		clone_rule(p);
		break;
	case SIGNAL:
		signal_rule(p);
		break;
	case READ:
		read_rule(p, sys->fx[0].kind == GR_FX_FD ? 3 : 2);
		break;
	case FCNTL:
		fcntl_rule(p);
		break;
	case IOCTL:
		ioctl_rule(p);
		break;
	case PRCTL:
		prctl_rule(p);
		break;
	case MEMORY:
	case LOOK:
		if (!p->landlock && !(rule == LOOK && p->copies)) {
			load_arg(p, 1);
			when_not_equal(p, p->pid, REFUSAL);
		}
		answer(p, SECCOMP_RET_ALLOW);
		break;
	case PERF:
		load_arg(p, 2);
		when_equal(p, (uint32_t)-1, REFUSAL); // all processes
		load_arg(p, 5);
		when_any_bit(p, 4 /* PERF_FLAG_PID_CGROUP */, REFUSAL);
		if (!p->landlock && !p->copies) {
			load_arg(p, 2);
			when_not_equal(p, 0, REFUSAL);
		}
		answer(p, SECCOMP_RET_ALLOW);
		break;
	case OWN:
		load_arg(p, 1);
		when_not_equal(p, 0, REFUSAL);
		answer(p, SECCOMP_RET_ALLOW);
		break;
	case LIMITS:
		load_arg(p, 1);
		when_equal(p, 0, SECCOMP_RET_ALLOW);
		load_arg(p, 3);
		when_not_equal(p, 0, REFUSAL);
		load_high(p, 3);
		when_not_equal(p, 0, REFUSAL);
		answer(p, SECCOMP_RET_ALLOW);
		break;
	}
}

static enum rule rule_of(const struct gr_sys *sys)
{
	for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++)
		if (!strcmp(rows[i].name, sys->name))
			return rows[i].rule;
	return REFUSE;
}

// A list, not a tree: for a call whose answer does not depend on its arguments the kernel (5.11) looks only once.
static bool filter_build(struct program *p)
{
	load(p, offsetof(struct seccomp_data, arch));
	when_not_equal(p, AUDIT_ARCH_X86_64, NO_SUCH_CALL);
	load(p, offsetof(struct seccomp_data, nr));
	for (uint32_t nr = 0, last = 0; nr < GR_SYS_MAX; nr++) {
		const struct gr_sys *sys = &gr_sys_table[nr];
		if (!sys->name)
			continue;
		if (nr > last + 1) { // a gap in the numbers
			emit(p, BPF_JMP | BPF_JGT | BPF_K, last, 0, 2);
			emit(p, BPF_JMP | BPF_JGE | BPF_K, nr, 1, 0);
			answer(p, NO_SUCH_CALL);
		}
		last = nr;
		enum rule rule = rule_of(sys);
		if (rule == ALLOW)
			continue;
		unsigned short at = p->len;
		emit(p, BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 0);
		rule_emit(p, sys, rule);
		if (p->len - at - 1 > 255)
			return false;
		p->code[at].jf = (uint8_t)(p->len - at - 1);
	}
	uint32_t last = 0;
	for (uint32_t nr = 0; nr < GR_SYS_MAX; nr++)
		last = gr_sys_table[nr].name ? nr : last;
	emit(p, BPF_JMP | BPF_JGT | BPF_K, last, 0, 1); // also what has the bit of the x32 calls
	answer(p, NO_SUCH_CALL);
	answer(p, SECCOMP_RET_ALLOW);
	return p->len < PROGRAM_MAX;
}

enum gr_fence_part gr_fence_raise(bool copies, uint32_t tasks)
{
	static struct program program;
	program = (struct program){.landlock = landlock_version(), .copies = copies, .pid = (uint32_t)syscall(SYS_getpid)};
	if (copies)
		setpgid(0, 0); // a group that the controller can end as a whole
	// What the shell had open is nobody's here: a replay gets everything from the demo.
	if (syscall(SYS_close_range, 3, GR_FD_CTL - 1, 4) < 0 || syscall(SYS_close_range, GR_FD_DATA + 1, ~0U, 4) < 0) // CLOEXEC
		return GR_FENCE_PRIVILEGES;
	limits_lower(copies, tasks);
	if (!privileges_drop())
		return GR_FENCE_PRIVILEGES;
	if (program.landlock && !landlock_raise(program.landlock))
		return GR_FENCE_LANDLOCK;
	errno = E2BIG;
	if (!filter_build(&program))
		return GR_FENCE_FILTER;
	struct sock_fprog fprog = {program.len, program.code};
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &fprog, 0, 0) == 0 ? GR_FENCE_NONE : GR_FENCE_FILTER;
}
