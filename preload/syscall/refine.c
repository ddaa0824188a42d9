// ioctl, fcntl, prctl and futex: many calls under one number each.
// Runs in: application threads, on the engine's stack.
// May call: core.
// Owns: which of them has which effect.
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>

#include "../core/panic.h"
#include "../core/raw.h"
#include "dispatch.h"
#include "memory/memory.h"

static void out(struct gr_fx *fx, uint8_t arg, uint32_t size)
{
	*fx = (struct gr_fx){GR_FX_OUT, arg, GR_LEN_BYTES, 0, size};
}

enum { // of prctl; older headers lack some
	SET_SYSCALL_USER_DISPATCH = 59,
	SCHED_CORE = 62,
	GET_AUXV = 0x41555856,
};

static _Noreturn void refuse_layout(const struct gr_call *call)
{
	gr_panic(call->self, GR_PANIC_REFUSED, "prctl(PR_SET_MM) of the end of the heap, which a replay could not move\n"
		 "do not record the part of the program that restores a process", 0, 0);
}

static void refine_prctl(struct gr_call *call, struct gr_fx *fx)
{
	const uint64_t *a = call->arg;
	switch ((int)a[0]) {
	case PR_GET_NAME:
		out(fx, 2, 16);
		break;
	case PR_GET_PDEATHSIG:
	case PR_GET_TSC:
	case PR_GET_CHILD_SUBREAPER:
	case PR_GET_UNALIGN:
	case PR_GET_FPEMU:
	case PR_GET_FPEXC:
	case PR_GET_ENDIAN:
		out(fx, 2, 4);
		break;
	case PR_GET_TID_ADDRESS:
		out(fx, 2, 8);
		break;
	case PR_SET_MM:
		if (a[1] == PR_SET_MM_MAP_SIZE)
			out(fx, 3, 4);
		else if (a[1] == PR_SET_MM_START_BRK || a[1] == PR_SET_MM_BRK || a[1] == PR_SET_MM_MAP)
			refuse_layout(call);
		break;
	case GET_AUXV:
		*fx = (struct gr_fx){GR_FX_OUT, 2, GR_LEN_RET, 3, 1};
		break;
	case SCHED_CORE:
		if (a[1] == 0) // PR_SCHED_CORE_GET
			out(fx, 5, 8);
		break;
	case PR_SET_SECCOMP:
		gr_panic(call->self, GR_PANIC_REFUSED,
			 "prctl(PR_SET_SECCOMP), a filter that would also judge the engine's system calls"
			 "\nswitch the program's sandbox off, e.g. --no-sandbox", 0, 0);
	case SET_SYSCALL_USER_DISPATCH: // the engine's own; as on a kernel that has none
		call->arg[0] = ~0ULL;
	}
}

static void refine_fcntl(const struct gr_call *call, struct gr_fx *fx)
{
	switch ((int)call->arg[1]) {
	case F_GETLK:
	case F_OFD_GETLK:
		*fx = (struct gr_fx){GR_FX_INOUT, 3, GR_LEN_BYTES, 0, sizeof(struct flock)};
		break;
	case F_GETOWN_EX:
	case 17:   // F_GETOWNER_UIDS
	case 1035: // F_GET_RW_HINT
	case 1037: // F_GET_FILE_RW_HINT
		out(fx, 3, 8);
		break;
	case 1039: // F_GETDELEG
		*fx = (struct gr_fx){GR_FX_INOUT, 3, GR_LEN_BYTES, 0, 8};
	}
}

// Requests that each driver gives its own meaning, with a structure that leads to more.
static uint32_t private_size(uint32_t request)
{
	if (request >= 0x89f0 && request <= 0x89ff) // SIOCDEVPRIVATE: struct ifreq
		return 40;
	return request >= 0x8b00 && request <= 0x8bff ? 32 : 0; // SIOCIWFIRST: struct iwreq
}

static void refine_ioctl(const struct gr_call *call, struct gr_fx *fx)
{
	uint32_t request = (uint32_t)call->arg[1];
	const struct gr_ioctl *known = gr_ioctl_find(request);
	if (known)
		*fx = known->fx;
	else if (gr_compare_is_pointer(call->arg[2]))
		*fx = (struct gr_fx){GR_FX_COMPARE, 3, GR_LEN_NONE, 0, private_size(request)};
}

_Noreturn void gr_refuse_ioctl(const struct gr_call *call)
{
	const struct gr_ioctl *row = gr_ioctl_find((uint32_t)call->arg[1]);
	gr_panic(call->self, GR_PANIC_REFUSED, "ioctl %s, by which the kernel stores in memory that its structure leads to, or does so later\n"
		 "record the class `device` with the mode `ignore`, or the program without its use of the device",
		 (uint64_t)(row ? row->name : ""), 0);
}

// Those that store in the word by themselves.
static void refine_futex(const struct gr_call *call, struct gr_fx *fx)
{
	switch (call->arg[1] & 127) {
	case FUTEX_LOCK_PI:
	case FUTEX_UNLOCK_PI:
	case FUTEX_TRYLOCK_PI:
	case 13: // FUTEX_LOCK_PI2
		*fx = (struct gr_fx){GR_FX_OUT_ANY, 1, GR_LEN_BYTES, 0, 4};
		break;
	case FUTEX_WAKE_OP:
	case FUTEX_WAIT_REQUEUE_PI:
	case FUTEX_CMP_REQUEUE_PI:
		*fx = (struct gr_fx){GR_FX_OUT_ANY, 5, GR_LEN_BYTES, 0, 4};
	}
}

// ---------------------------------------------------------------- numbers of 32 bits
// Lengths, counts and kinds that the kernel takes for an int, where the engine looks at them: by their positions.
static uint8_t short_numbers(long nr)
{
	enum { FIRST = 1 << 0, SECOND = 1 << 1, THIRD = 1 << 2, FOURTH = 1 << 3, FIFTH = 1 << 4, SIXTH = 1 << 5 };
	switch (nr) {
	case SYS_getgroups:
	case SYS_setgroups:
	case SYS_prctl:
	case SYS_arch_prctl:
	case SYS_rt_sigaction:
	case SYS_rt_sigprocmask:
	case SYS_clock_gettime:
	case SYS_clock_getres:
	case SYS_clock_nanosleep:
	case SYS_timer_create:
		return FIRST;
	case SYS_poll:
	case SYS_ppoll:
	case SYS_sethostname:
	case SYS_setdomainname:
	case SYS_sched_getaffinity:
	case SYS_sched_setaffinity:
	case SYS_fcntl:
	case SYS_ioctl:
	case SYS_futex:
	case 449: // futex_waitv
		return SECOND;
	case SYS_connect:
	case SYS_bind:
	case SYS_semop:
	case SYS_semtimedop:
	case SYS_getdents:
	case SYS_getdents64:
	case SYS_readlink:
	case SYS_syslog:
	case SYS_epoll_wait:
	case SYS_epoll_pwait:
	case 441: // epoll_pwait2
	case SYS_sched_getattr:
	case SYS_sendmmsg:
	case SYS_recvmmsg:
	case SYS_lseek:
	case SYS_madvise:
		return THIRD;
	case SYS_readlinkat:
	case SYS_process_madvise:
		return FOURTH;
	case SYS_setsockopt:
	case SYS_name_to_handle_at:
		return FIFTH;
	case SYS_sendto:
		return SIXTH;
	}
	return 0;
}

static uint8_t descriptors(const struct gr_sys *sys)
{
	uint8_t positions = 0;
	for (int i = 0; i < GR_FX_MAX && sys->fx[i].kind; i++) {
		const struct gr_fx *fx = &sys->fx[i];
		if (fx->kind == GR_FX_FD || fx->kind == GR_FX_CLOSES || fx->kind == GR_FX_DUPS || fx->kind == GR_FX_DUPS_TO)
			positions |= 1 << (fx->arg - 1);
		if (fx->kind == GR_FX_DUPS_TO)
			positions |= 1 << (fx->len_arg - 1);
	}
	return positions;
}

// What a register has above them says nothing: compilers leave there what they like. Descriptors are such numbers, too.
void gr_call_narrow(struct gr_call *call)
{
	enum { KNOWN = 0x80 };
	static uint8_t known[GR_SYS_MAX];
	uint8_t narrow = __atomic_load_n(&known[call->nr], __ATOMIC_RELAXED);
	if (!narrow) {
		narrow = KNOWN | short_numbers(call->nr) | descriptors(call->sys);
		__atomic_store_n(&known[call->nr], narrow, __ATOMIC_RELAXED);
	}
	for (unsigned i = 0; i < 6; i++)
		if (narrow >> i & 1)
			call->arg[i] = (uint64_t)(int64_t)(int32_t)call->arg[i];
}

void gr_call_refine(struct gr_call *call)
{
	struct gr_fx *fx = &call->ioctl;
	switch (call->nr) {
	case SYS_ioctl:
		refine_ioctl(call, fx);
		break;
	case SYS_fcntl:
		refine_fcntl(call, fx);
		break;
	case SYS_prctl:
		refine_prctl(call, fx);
		break;
	case SYS_futex:
		refine_futex(call, fx);
	}
}
