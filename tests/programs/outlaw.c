// Tries everything that a replay must not do, by the names on its command line: outlaw [--gate FILE] DIR PID NAME...
// Prints "NAME ok" for what the kernel let it do and "NAME ERRNO" for what it refused. What would last, or needs luck, is
// tried on things that do not exist: then the kernel's answer tells whether it came to look.
// With --gate it does all that only if FILE begins with an 'x', and its calls are made by the engine's own gate: so would
// an honest program that was led astray by what it read.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <linux/hw_breakpoint.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "gate.h"

static const char *dir;
static char made[4096], precious[4096];
static long outsider; // a process of the same user that is none of ours

static long opened(const char *path)
{
	return CALL(SYS_open, path, O_RDONLY);
}

static long self(long nr)
{
	return CALL(nr);
}

// ---------------------------------------------------------------- deeds
static long make(void) { return CALL(SYS_openat, AT_FDCWD, made, O_CREAT | O_WRONLY, 0644); }
static long make_old(void) { return CALL(SYS_open, made, O_CREAT | O_WRONLY, 0644); }
static long make_creat(void) { return CALL(SYS_creat, made, 0644); }
static long make_openat2(void)
{
	uint64_t how[3] = {O_CREAT | O_WRONLY, 0644, 0};
	return CALL(SYS_openat2, AT_FDCWD, made, how, sizeof how);
}
static long make_tmpfile(void) { return CALL(SYS_openat, AT_FDCWD, dir, O_TMPFILE | O_WRONLY, 0644); }
static long change(void) { return CALL(SYS_openat, AT_FDCWD, precious, O_RDWR, 0); }
static long cut(void) { return CALL(SYS_openat, AT_FDCWD, precious, O_RDONLY | O_TRUNC, 0); }
static long truncate_it(void) { return CALL(SYS_truncate, precious, 0); }
static long append(void) { return CALL(SYS_openat, AT_FDCWD, precious, O_WRONLY | O_APPEND, 0); }
static long unlink_it(void) { return CALL(SYS_unlink, precious); }
static long unlinkat_it(void) { return CALL(SYS_unlinkat, AT_FDCWD, precious, 0); }
static long rename_it(void) { return CALL(SYS_rename, precious, made); }
static long renameat2_it(void) { return CALL(SYS_renameat2, AT_FDCWD, precious, AT_FDCWD, made, 0); }
static long link_it(void) { return CALL(SYS_link, precious, made); }
static long symlink_it(void) { return CALL(SYS_symlink, "x", made); }
static long mkdir_it(void) { return CALL(SYS_mkdir, made, 0755); }
static long mknod_it(void) { return CALL(SYS_mknod, made, S_IFIFO | 0644, 0); }
static long chmod_it(void) { return CALL(SYS_chmod, precious, 0777); }
static long fchmodat2_it(void) { return CALL(452, AT_FDCWD, precious, 0777, 0); }
static long fchmod_it(void) { return CALL(SYS_fchmod, opened(precious), 0777); }
static long chown_it(void) { return CALL(SYS_chown, precious, self(SYS_getuid), -1); }
static long touch(void) { return CALL(SYS_utimensat, AT_FDCWD, precious, 0, 0); }
static long touch_fd(void) { return CALL(SYS_utimensat, opened(precious), 0, 0, 0); }
static long xattr(void) { return CALL(SYS_setxattr, precious, "user.x", "y", 1, 0); }
static long chattr(void)
{
	int flags = 0;
	return CALL(SYS_ioctl, opened(precious), 0x40086602, &flags); // FS_IOC_SETFLAGS
}
static long bind_unix(void)
{
	struct sockaddr_un addr = {AF_UNIX, {0}};
	strncpy(addr.sun_path, made, sizeof addr.sun_path - 1);
	long fd = CALL(SYS_socket, AF_UNIX, SOCK_STREAM, 0);
	return fd < 0 ? fd : CALL(SYS_bind, fd, &addr, sizeof addr);
}
static long socket_of(int family) { return CALL(SYS_socket, family, SOCK_STREAM, 0); }
static long socket_inet(void) { return socket_of(AF_INET); }
static long socket_unix(void) { return socket_of(AF_UNIX); }
static long socket_netlink(void) { return CALL(SYS_socket, AF_NETLINK, SOCK_RAW, 0); }
static long exec(void)
{
	const char *argv[] = {"/bin/sh", "-c", "echo exec ok; : >\"$0\"", made, NULL};
	return CALL(SYS_execve, argv[0], argv, 0);
}
static long execveat_it(void) { return CALL(SYS_execveat, AT_FDCWD, "/nonexistent/nowhere", 0, 0, 0); }
static long reap(long pid)
{
	if (pid == 0)
		CALL(SYS_exit_group, 0);
	if (pid > 0)
		CALL(SYS_wait4, pid, 0, __WALL, 0);
	return pid;
}
static long fork_it(void) { return reap(CALL(SYS_fork)); }
static long clone_it(void) { return reap(CALL(SYS_clone, SIGCHLD, 0, 0, 0, 0)); }
static long clone_parent(void) { return reap(CALL(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0)); }
static long clone3_it(void)
{
	uint64_t args[8] = {0, 0, 0, 0, SIGCHLD};
	return reap(CALL(SYS_clone3, args, sizeof args));
}
static long clone_user(void) { return reap(CALL(SYS_clone, SIGCHLD | CLONE_NEWUSER, 0, 0, 0, 0)); }
static long unshare_user(void) { return CALL(SYS_unshare, CLONE_NEWUSER); }
static long setsid_it(void) { return CALL(SYS_setsid); }
static long kill_it(void) { return CALL(SYS_kill, outsider, SIGUSR1); }
static long tkill_it(void) { return CALL(SYS_tkill, outsider, SIGUSR1); }
static long tgkill_it(void) { return CALL(SYS_tgkill, outsider, outsider, SIGUSR1); }
static long queue_it(void)
{
	siginfo_t info = {.si_signo = SIGUSR1, .si_code = SI_QUEUE};
	return CALL(SYS_rt_sigqueueinfo, outsider, SIGUSR1, &info);
}
static long tgqueue_it(void)
{
	siginfo_t info = {.si_signo = SIGUSR1, .si_code = SI_QUEUE};
	return CALL(SYS_rt_tgsigqueueinfo, outsider, outsider, SIGUSR1, &info);
}
static long pidfd_it(void)
{
	long fd = CALL(SYS_pidfd_open, outsider, 0);
	return fd < 0 ? fd : CALL(SYS_pidfd_send_signal, fd, SIGUSR1, 0, 0);
}
static long memory_of(void)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/%ld/mem", outsider);
	return opened(path);
}
static long descriptor_of(void)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/%ld/fd/0", outsider);
	return opened(path);
}
static long environment_of(void)
{
	char path[64], byte;
	snprintf(path, sizeof path, "/proc/%ld/environ", outsider);
	long fd = opened(path);
	return fd < 0 ? fd : CALL(SYS_read, fd, &byte, 1);
}
static long peek_other(void)
{
	char byte = 1;
	struct { void *base; size_t len; } local = {&byte, 1}, remote = {&byte, 1};
	long ret = CALL(SYS_process_vm_readv, outsider, &local, 1, &remote, 1, 0);
	return ret == -EFAULT ? 0 : ret;
}
static long perf_other(void)
{
	struct perf_event_attr attr = {.type = PERF_TYPE_BREAKPOINT, .size = sizeof attr, .bp_type = HW_BREAKPOINT_W,
		.bp_addr = (uintptr_t)made, .bp_len = 8, .exclude_kernel = 1, .exclude_hv = 1};
	return CALL(SYS_perf_event_open, &attr, outsider, -1, -1, 0);
}
static long perf_all(void)
{
	struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_CPU_CLOCK, .size = sizeof attr};
	return CALL(SYS_perf_event_open, &attr, -1, 0, -1, 0);
}
static long terminal(void) { return opened("/dev/ptmx"); }
static long reopen_in(void) { return CALL(SYS_open, "/proc/self/fd/0", O_WRONLY); }
static long reopen_out(void) { return CALL(SYS_openat, AT_FDCWD, "/proc/self/fd/1", O_RDWR); }
static long openat2_of(const char *path, uint64_t flags)
{
	uint64_t how[3] = {flags, 0, 0};
	return CALL(SYS_openat2, AT_FDCWD, path, how, sizeof how);
}
static long reopen_openat2(void) { return openat2_of("/proc/self/fd/0", O_RDWR); }
static long read_openat2(void) { return openat2_of(precious, O_RDONLY); }
static long flags_in(void) { return CALL(SYS_fcntl, 0, F_SETFL, O_NONBLOCK); }
static long flags_out(void) { return CALL(SYS_fcntl, 1, F_SETFL, O_APPEND); }
static long blocking_in(void)
{
	int on = 0;
	return CALL(SYS_ioctl, 0, FIONBIO, &on);
}
static long lock_with(int how)
{
	struct flock lock = {.l_type = F_RDLCK};
	return CALL(SYS_fcntl, opened(precious), how, &lock);
}
static long lock_it(void) { return lock_with(F_SETLK); }
static long lock_open(void) { return lock_with(F_OFD_SETLK); }
static long flock_it(void) { return CALL(SYS_flock, opened(precious), LOCK_SH); }
static long lease_it(void) { return CALL(SYS_fcntl, opened(precious), F_SETLEASE, F_RDLCK); }
static long survive(void) { return CALL(SYS_prctl, PR_SET_PDEATHSIG, 0); }
static long survive_softly(void) { return CALL(SYS_prctl, PR_SET_PDEATHSIG, SIGCONT); }
static long stop_own(void)
{
	uint64_t ignore[4] = {1 /* SIG_IGN */};
	CALL(SYS_rt_sigaction, SIGTSTP, ignore, 0, 8);
	return CALL(SYS_tgkill, self(SYS_getpid), self(SYS_gettid), SIGTSTP);
}
static long mq_receive(void) { return CALL(SYS_mq_timedreceive, -1, 0, 0, 0, 0); }
static long mq_notify_it(void) { return CALL(SYS_mq_notify, -1, 0); }
static long mq_set(void) { return CALL(SYS_mq_getsetattr, -1, 0, 0); }
static long msgrcv_it(void) { return CALL(SYS_msgrcv, -1, 0, 0, 0, 0); }
static long pidfd_only(void) { return CALL(SYS_pidfd_open, outsider, 0); }
static long pipe_it(void)
{
	int ends[2];
	return CALL(SYS_pipe2, ends, 0);
}
static long notify_it(void) { return CALL(SYS_inotify_init1, 0); }
static long undumpable(void) { return CALL(SYS_prctl, PR_SET_DUMPABLE, 0); }
static long owner_it(void) { return CALL(SYS_fcntl, 0, F_SETOWN, outsider); }
static long ptrace_it(void) { return CALL(SYS_ptrace, PTRACE_SEIZE, outsider, 0, 0); }
static long poke_it(void)
{
	char byte = 1;
	struct { void *base; size_t len; } local = {&byte, 1}, remote = {&byte, 1};
	long ret = CALL(SYS_process_vm_writev, outsider, &local, 1, &remote, 1, 0);
	return ret == -EFAULT ? 0 : ret; // reached it, and nothing is there
}
static long limits_it(void)
{
	struct rlimit limit = {100, 100};
	return CALL(SYS_prlimit64, outsider, RLIMIT_CORE, &limit, 0);
}
static long renice(void) { return CALL(SYS_setpriority, PRIO_PROCESS, outsider, 19); }
static long type_in(void) { return CALL(SYS_ioctl, 0, TIOCSTI, "x"); }
static long mount_it(void) { return CALL(SYS_mount, "none", "/nonexistent/nowhere", "tmpfs", 0, 0); }
static long chroot_it(void) { return CALL(SYS_chroot, "/nonexistent/nowhere"); }
static long io_uring(void)
{
	char params[120] = {0};
	return CALL(425, 1, params);
}
static long bpf(void) { return CALL(SYS_bpf, 0, 0, 0); }
static long keyctl(void) { return CALL(SYS_keyctl, 0, -3, 1); }
static long add_key(void) { return CALL(SYS_add_key, "user", "gdbrr-outlaw", "x", 1, -2); }
static long semget_it(void) { return CALL(SYS_semget, 0x67646272, 0, 0); }
static long msgget_it(void) { return CALL(SYS_msgget, 0x67646272, 0); }
static long mq_open_it(void) { return CALL(SYS_mq_open, "gdbrr-outlaw", O_RDWR, 0, 0); }
static long reboot_it(void) { return CALL(SYS_reboot, 0, 0, 0, 0); }
static long setns_it(void) { return CALL(SYS_setns, opened("/proc/self/ns/user"), 0); }
static long own_memory(void) { return CALL(SYS_open, "/proc/self/mem", O_RDWR); }
static long memory_file(void)
{
	long fd = CALL(SYS_memfd_create, "x", 0);
	return fd < 0 ? fd : CALL(SYS_ftruncate, fd, 4096);
}
static long grow_output(void)
{
	long fd = CALL(SYS_dup, 1);
	return CALL(SYS_fallocate, fd, 1 /* FALLOC_FL_KEEP_SIZE */, 0, 4096);
}
static long newer(void) { return CALL(511); }
static long int80(void)
{
	long ret;
	__asm__ volatile("int $0x80" : "=a"(ret) : "0"(20) : "memory"); // getpid of the 32-bit table
	return ret;
}
static long x32(void) { return CALL(0x40000000 | 39); }

// Allowed on either side: a fence that refuses everything would pass the tests above as well.
static long look(void) { return opened(precious); }
static long list(void) { return CALL(SYS_open, dir, O_RDONLY | O_DIRECTORY); }
static long map_it(void)
{
	long ret = CALL(SYS_mmap, 0, 4096, 3, 0x22, -1, 0);
	return ret > 0 ? 0 : ret;
}
static long alive(void) { return CALL(SYS_tgkill, self(SYS_getpid), self(SYS_gettid), 0); }
static long raise_own(void)
{
	signal(SIGUSR2, SIG_IGN);
	return CALL(SYS_tgkill, self(SYS_getpid), self(SYS_gettid), SIGUSR2);
}
static long peek(void)
{
	char from = 1, to = 0;
	struct { void *base; size_t len; } local = {&to, 1}, remote = {&from, 1};
	return CALL(SYS_process_vm_readv, self(SYS_getpid), &local, 1, &remote, 1, 0) == 1 ? 0 : -1;
}

static const struct { const char *name; long (*deed)(void); } deeds[] = {
#define DEED(name) {#name, name}
	DEED(make), DEED(make_old), DEED(make_creat), DEED(make_openat2), DEED(make_tmpfile), DEED(change), DEED(cut),
	DEED(truncate_it), DEED(append), DEED(unlink_it), DEED(unlinkat_it), DEED(rename_it), DEED(renameat2_it), DEED(link_it),
	DEED(symlink_it), DEED(mkdir_it), DEED(mknod_it), DEED(chmod_it), DEED(fchmodat2_it), DEED(fchmod_it), DEED(chown_it),
	DEED(touch), DEED(touch_fd), DEED(xattr), DEED(chattr), DEED(bind_unix), DEED(socket_inet), DEED(socket_unix),
	DEED(socket_netlink), DEED(exec), DEED(execveat_it), DEED(fork_it), DEED(clone_it), DEED(clone_parent), DEED(clone3_it),
	DEED(clone_user), DEED(unshare_user), DEED(setsid_it), DEED(kill_it), DEED(tkill_it), DEED(tgkill_it), DEED(queue_it),
	DEED(tgqueue_it), DEED(pidfd_it), DEED(owner_it), DEED(ptrace_it), DEED(poke_it), DEED(limits_it), DEED(renice),
	DEED(type_in), DEED(mount_it), DEED(chroot_it), DEED(io_uring), DEED(bpf), DEED(keyctl), DEED(add_key), DEED(semget_it),
	DEED(msgget_it), DEED(mq_open_it), DEED(reboot_it), DEED(setns_it), DEED(own_memory), DEED(memory_file),
	DEED(grow_output), DEED(memory_of), DEED(descriptor_of), DEED(environment_of), DEED(peek_other), DEED(perf_other), DEED(perf_all), DEED(terminal), DEED(reopen_in),
	DEED(reopen_out), DEED(reopen_openat2), DEED(read_openat2), DEED(flags_in), DEED(flags_out), DEED(blocking_in),
	DEED(lock_it), DEED(lock_open), DEED(flock_it), DEED(lease_it), DEED(survive), DEED(survive_softly), DEED(stop_own),
	DEED(mq_receive), DEED(mq_notify_it), DEED(mq_set), DEED(msgrcv_it), DEED(pidfd_only), DEED(pipe_it), DEED(notify_it),
	DEED(undumpable), DEED(newer), DEED(int80), DEED(x32),
	DEED(look), DEED(list), DEED(map_it), DEED(alive), DEED(raise_own), DEED(peek),
};

int main(int argc, char **argv)
{
	if (argc > 2 && strcmp(argv[1], "--gate") == 0) {
		int fd = open(argv[2], O_RDONLY);
		char byte = 0;
		if (read(fd, &byte, 1) != 1 || byte != 'x')
			return 0;
		dl_iterate_phdr(find_gate, NULL);
		if (!gate)
			return 3;
		argv += 2;
		argc -= 2;
	}
	if (argc < 3)
		return 2;
	dir = argv[1];
	snprintf(made, sizeof made, "%s/made", dir);
	snprintf(precious, sizeof precious, "%s/precious", dir);
	outsider = atol(argv[2]);
	for (int i = 3; i < argc; i++)
		for (unsigned d = 0; d < sizeof deeds / sizeof *deeds; d++)
			if (strcmp(deeds[d].name, argv[i]) == 0) {
				char line[128];
				long ret = deeds[d].deed();
				int n = ret < 0 ? snprintf(line, sizeof line, "%s %s\n", argv[i], strerrorname_np((int)-ret))
						: snprintf(line, sizeof line, "%s ok\n", argv[i]);
				CALL(SYS_write, 1, line, n);
			}
	return 0;
}
