// Runs a program under a seccomp filter like those of containers: sandbox RULE... -- PROGRAM [ARG...]
// Rules: docker (what Docker's default refuses to an unprivileged container), and single refusals: personality, ptrace,
// dispatch (Syscall User Dispatch), landlock, filter (further seccomp filters by prctl), perf.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct sock_filter code[512];
static unsigned short len;

static void emit(unsigned short op, unsigned k, unsigned char jt, unsigned char jf)
{
	code[len++] = (struct sock_filter){op, jt, jf, k};
}

static void load(unsigned offset)
{
	emit(BPF_LD | BPF_W | BPF_ABS, offset, 0, 0);
}

static void refuse(unsigned nr, int err)
{
	emit(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1);
	emit(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)err, 0, 0);
}

// Refuses call `nr` when argument `arg` (from 0) is `value`.
static void refuse_value(unsigned nr, unsigned arg, unsigned value, int err)
{
	emit(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 4);
	load(offsetof(struct seccomp_data, args) + 8 * arg);
	emit(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1);
	emit(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)err, 0, 0);
	load(offsetof(struct seccomp_data, nr));
}

static void refuse_personality(void)
{
	static const unsigned allowed[] = {0, 8, 0x20000, 0x20008, 0xffffffff};
	enum { COUNT = sizeof allowed / sizeof *allowed };
	emit(BPF_JMP | BPF_JEQ | BPF_K, SYS_personality, 0, COUNT + 3);
	load(offsetof(struct seccomp_data, args));
	for (unsigned i = 0; i < COUNT; i++)
		emit(BPF_JMP | BPF_JEQ | BPF_K, allowed[i], (unsigned char)(COUNT - i), 0);
	emit(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM, 0, 0);
	load(offsetof(struct seccomp_data, nr));
}

static void refuse_docker(void)
{
	static const unsigned calls[] = {
		SYS_acct, SYS_add_key, SYS_bpf, SYS_clock_adjtime, SYS_clock_settime, SYS_create_module, SYS_delete_module,
		SYS_finit_module, SYS_get_kernel_syms, SYS_init_module, SYS_ioperm, SYS_iopl, SYS_kexec_file_load, SYS_kexec_load,
		SYS_keyctl, SYS_lookup_dcookie, SYS_mount, SYS_move_pages, SYS_nfsservctl, SYS_open_by_handle_at, SYS_perf_event_open,
		SYS_pivot_root, SYS_query_module, SYS_quotactl, SYS_reboot, SYS_request_key, SYS_setns, SYS_settimeofday, SYS_swapon,
		SYS_swapoff, SYS_sysfs, SYS__sysctl, SYS_umount2, SYS_unshare, SYS_uselib, SYS_userfaultfd, SYS_ustat, SYS_vhangup,
		SYS_kcmp, 425, 426, 427,
	};
	for (unsigned i = 0; i < sizeof calls / sizeof *calls; i++)
		refuse(calls[i], EPERM);
	refuse(SYS_clone3, ENOSYS);
	refuse_personality();
}

int main(int argc, char **argv)
{
	int i = 1;
	emit(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr), 0, 0);
	for (; i < argc && strcmp(argv[i], "--") != 0; i++) {
		if (!strcmp(argv[i], "docker"))
			refuse_docker();
		else if (!strcmp(argv[i], "personality"))
			refuse_personality();
		else if (!strcmp(argv[i], "ptrace"))
			refuse(SYS_ptrace, EPERM);
		else if (!strcmp(argv[i], "dispatch"))
			refuse_value(SYS_prctl, 0, 59, EINVAL);
		else if (!strcmp(argv[i], "landlock"))
			refuse(444, ENOSYS);
		else if (!strcmp(argv[i], "filter"))
			refuse_value(SYS_prctl, 0, PR_SET_SECCOMP, EINVAL);
		else if (!strcmp(argv[i], "perf"))
			refuse(SYS_perf_event_open, EACCES);
		else
			return 2;
	}
	if (i + 1 >= argc)
		return 2;
	emit(BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
	struct sock_fprog program = {len, code};
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program)) {
		perror("sandbox");
		return 3;
	}
	execvp(argv[i + 1], argv + i + 1);
	perror(argv[i + 1]);
	return 127;
}
