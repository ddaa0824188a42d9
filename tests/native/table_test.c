// Proves the constant sizes of tables/syscalls.def against the system's headers: every one of them, or the test fails.
// Runs in: a program of its own, started by tests/unit/test_table_c.py.
// May call: libc.
// Owns: the pairing of a call's argument with the C type behind it.
#define _GNU_SOURCE
#include "syscall/effects.h"

#include "abi.h"

#include <asm/ldt.h>
#include <linux/capability.h>
#include <mqueue.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/times.h>
#include <sys/timex.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <time.h>
#include <utime.h>

// What libc hides or older headers do not have.
struct kernel_sigaction { void *handler; unsigned long flags; void *restorer; uint64_t mask; };
struct kernel_ustat { int f_tfree; unsigned long f_tinode; char f_fname[6]; char f_fpack[6]; };
struct sigmask_and_size { const void *mask; size_t size; };
struct futex_wait_entry { uint64_t val, uaddr; uint32_t flags, reserved; };
struct cache_range { uint64_t off, len; };
struct cache_counts { uint64_t cache, dirty, writeback, evicted, recently_evicted; };
typedef int two_descriptors[2];
typedef struct timespec two_timespecs[2];
typedef struct timeval two_timevals[2];
// waitid fills a siginfo_t up to its status and leaves the rest alone.
typedef char waitid_part[offsetof(siginfo_t, si_status) + sizeof(int)];

static int failures;
static bool proven[GR_SYS_MAX][GR_FX_MAX];

#define FAIL(...) (printf(__VA_ARGS__), failures++)

// Does a fixed number stand in this effect, which a header can confirm?
static bool fixed(const struct gr_fx *fx)
{
	if (fx->len_kind == GR_LEN_BYTES || fx->len_kind == GR_LEN_WHEN)
		return true;
	return (fx->len_kind == GR_LEN_ARG || fx->len_kind == GR_LEN_RET) && fx->scale != 1;
}

static void prove(const char *name, int arg, size_t size)
{
	int found = 0;

	for (int nr = 0; nr < GR_SYS_MAX; nr++) {
		if (!gr_sys_table[nr].name || strcmp(gr_sys_table[nr].name, name))
			continue;
		for (int i = 0; i < GR_FX_MAX; i++) {
			const struct gr_fx *fx = &gr_sys_table[nr].fx[i];

			if (fx->arg != arg || !fixed(fx))
				continue;
			if (fx->scale != size)
				FAIL("%s: argument %d has %u bytes in the table, %zu in the headers\n", name, arg, fx->scale, size);
			proven[nr][i] = true;
			found++;
		}
	}
	if (!found)
		FAIL("%s: argument %d has no size in the table\n", name, arg);
}

#define PROVE(call, arg, type) prove(#call, arg, sizeof(type))

static void prove_all(void)
{
	PROVE(stat, 2, struct stat);
	PROVE(fstat, 2, struct stat);
	PROVE(lstat, 2, struct stat);
	PROVE(newfstatat, 3, struct stat);
	PROVE(statx, 5, struct statx);
	PROVE(statfs, 2, struct statfs);
	PROVE(fstatfs, 2, struct statfs);
	PROVE(ustat, 2, struct kernel_ustat);
	PROVE(poll, 1, struct pollfd);
	PROVE(ppoll, 1, struct pollfd);
	PROVE(ppoll, 3, struct timespec);
	PROVE(select, 5, struct timeval);
	PROVE(pselect6, 5, struct timespec);
	PROVE(pselect6, 6, struct sigmask_and_size);
	PROVE(epoll_ctl, 4, struct epoll_event);
	PROVE(epoll_wait, 2, struct epoll_event);
	PROVE(epoll_pwait, 2, struct epoll_event);
	PROVE(epoll_pwait2, 2, struct epoll_event);
	PROVE(epoll_pwait2, 4, struct timespec);
	PROVE(rt_sigaction, 2, struct kernel_sigaction);
	PROVE(rt_sigaction, 3, struct kernel_sigaction);
	PROVE(rt_sigtimedwait, 2, siginfo_t);
	PROVE(rt_sigtimedwait, 3, struct timespec);
	PROVE(rt_sigqueueinfo, 3, siginfo_t);
	PROVE(rt_tgsigqueueinfo, 4, siginfo_t);
	PROVE(pidfd_send_signal, 3, siginfo_t);
	PROVE(sigaltstack, 1, stack_t);
	PROVE(sigaltstack, 2, stack_t);
	PROVE(pipe, 1, two_descriptors);
	PROVE(pipe2, 1, two_descriptors);
	PROVE(socketpair, 4, two_descriptors);
	PROVE(accept, 3, socklen_t);
	PROVE(accept4, 3, socklen_t);
	PROVE(recvfrom, 6, socklen_t);
	PROVE(getsockname, 3, socklen_t);
	PROVE(getpeername, 3, socklen_t);
	PROVE(getsockopt, 5, socklen_t);
	PROVE(recvmmsg, 5, struct timespec);
	PROVE(sendfile, 3, loff_t);
	PROVE(splice, 2, loff_t);
	PROVE(splice, 4, loff_t);
	PROVE(copy_file_range, 2, loff_t);
	PROVE(copy_file_range, 4, loff_t);
	PROVE(nanosleep, 1, struct timespec);
	PROVE(nanosleep, 2, struct timespec);
	PROVE(clock_nanosleep, 3, struct timespec);
	PROVE(clock_nanosleep, 4, struct timespec);
	PROVE(clock_settime, 2, struct timespec);
	PROVE(clock_gettime, 2, struct timespec);
	PROVE(clock_getres, 2, struct timespec);
	PROVE(clock_adjtime, 2, struct timex);
	PROVE(adjtimex, 1, struct timex);
	PROVE(gettimeofday, 1, struct timeval);
	PROVE(gettimeofday, 2, struct timezone);
	PROVE(settimeofday, 1, struct timeval);
	PROVE(settimeofday, 2, struct timezone);
	PROVE(time, 1, time_t);
	PROVE(times, 1, struct tms);
	PROVE(getitimer, 2, struct itimerval);
	PROVE(setitimer, 2, struct itimerval);
	PROVE(setitimer, 3, struct itimerval);
	PROVE(timer_create, 2, struct sigevent);
	PROVE(timer_create, 3, int); // the kernel's timer_t; libc's is a pointer
	PROVE(timer_settime, 3, struct itimerspec);
	PROVE(timer_settime, 4, struct itimerspec);
	PROVE(timer_gettime, 2, struct itimerspec);
	PROVE(timerfd_settime, 3, struct itimerspec);
	PROVE(timerfd_settime, 4, struct itimerspec);
	PROVE(timerfd_gettime, 2, struct itimerspec);
	PROVE(utime, 2, struct utimbuf);
	PROVE(utimes, 2, two_timevals);
	PROVE(futimesat, 3, two_timevals);
	PROVE(utimensat, 3, two_timespecs);
	PROVE(wait4, 2, int);
	PROVE(wait4, 4, struct rusage);
	PROVE(waitid, 3, waitid_part);
	PROVE(waitid, 5, struct rusage);
	PROVE(uname, 1, struct utsname);
	PROVE(sysinfo, 1, struct sysinfo);
	PROVE(getrusage, 2, struct rusage);
	PROVE(getrlimit, 2, struct rlimit);
	PROVE(setrlimit, 2, struct rlimit);
	PROVE(prlimit64, 3, struct rlimit);
	PROVE(prlimit64, 4, struct rlimit);
	for (int arg = 1; arg <= 3; arg++) {
		PROVE(getresuid, arg, uid_t);
		PROVE(getresgid, arg, gid_t);
	}
	PROVE(getgroups, 2, gid_t);
	PROVE(setgroups, 2, gid_t);
	PROVE(capget, 1, struct __user_cap_header_struct);
	PROVE(capset, 1, struct __user_cap_header_struct);
	PROVE(getcpu, 1, unsigned);
	PROVE(getcpu, 2, unsigned);
	PROVE(sched_setattr, 2, uint32_t); // the size that the kernel knows
	PROVE(sched_setparam, 2, struct sched_param);
	PROVE(sched_getparam, 2, struct sched_param);
	PROVE(sched_setscheduler, 3, struct sched_param);
	PROVE(sched_rr_get_interval, 2, struct timespec);
	PROVE(set_thread_area, 1, struct user_desc);
	PROVE(get_thread_area, 1, struct user_desc);
	PROVE(get_robust_list, 2, void *);
	PROVE(get_robust_list, 3, size_t);
	PROVE(semop, 2, struct sembuf);
	PROVE(semtimedop, 2, struct sembuf);
	PROVE(semtimedop, 4, struct timespec);
	PROVE(mq_open, 4, struct mq_attr);
	PROVE(mq_getsetattr, 2, struct mq_attr);
	PROVE(mq_getsetattr, 3, struct mq_attr);
	PROVE(mq_timedsend, 5, struct timespec);
	PROVE(mq_timedreceive, 4, unsigned);
	PROVE(mq_timedreceive, 5, struct timespec);
	PROVE(mq_notify, 2, struct sigevent);
	PROVE(get_mempolicy, 1, int);
	PROVE(move_pages, 3, void *);
	PROVE(move_pages, 4, int);
	PROVE(move_pages, 5, int);
	PROVE(process_vm_readv, 4, struct iovec);
	PROVE(process_vm_writev, 4, struct iovec);
	PROVE(process_madvise, 2, struct iovec);
	PROVE(futex_waitv, 1, struct futex_wait_entry);
	PROVE(futex_waitv, 4, struct timespec);
	PROVE(futex_wait, 5, struct timespec);
	PROVE(futex_requeue, 1, struct futex_wait_entry[2]);
	PROVE(cachestat, 2, struct cache_range);
	PROVE(cachestat, 3, struct cache_counts);
	PROVE(listmount, 2, uint64_t);
	PROVE(listns, 2, uint64_t);
	PROVE(lsm_get_self_attr, 3, uint32_t);
	PROVE(lsm_list_modules, 2, uint32_t);
}

// Sizes that everybody knows, so that a wrong header cannot agree with a wrong table.
_Static_assert(sizeof(struct stat) == 144, "struct stat");
_Static_assert(sizeof(struct statfs) == 120, "struct statfs");
_Static_assert(sizeof(struct sysinfo) == 112, "struct sysinfo");
_Static_assert(sizeof(struct utsname) == 390, "struct utsname");
_Static_assert(sizeof(struct epoll_event) == 12, "struct epoll_event");
_Static_assert(sizeof(siginfo_t) == 128, "siginfo_t");
_Static_assert(sizeof(waitid_part) == 28, "siginfo_t up to its status");

// The table as C has it, for comparison with what Python has read: nr name class nargs, then kind:arg of each effect.
static void dump(void)
{
	for (int nr = 0; nr < GR_SYS_MAX; nr++) {
		const struct gr_sys *row = &gr_sys_table[nr];

		if (!row->name)
			continue;
		printf("%d %s %d %d %d", nr, row->name, row->cls, row->flags, row->nargs);
		for (int i = 0; i < GR_FX_MAX && row->fx[i].kind != GR_FX_NONE; i++)
			printf(" %d:%d:%d", row->fx[i].kind, row->fx[i].arg, row->fx[i].len_kind);
		printf("\n");
	}
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "dump")) {
		dump();
		return 0;
	}
	prove_all();
	for (int nr = 0; nr < GR_SYS_MAX; nr++)
		for (int i = 0; i < GR_FX_MAX; i++)
			if (gr_sys_table[nr].name && fixed(&gr_sys_table[nr].fx[i]) && !proven[nr][i])
				FAIL("%s: effect %d has a size that this test does not prove\n", gr_sys_table[nr].name, i);
	return failures != 0;
}
