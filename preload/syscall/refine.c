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

static void refine_prctl(struct gr_call *call, struct gr_fx *fx)
{
	switch (call->arg[0]) {
	case PR_GET_NAME:
		*fx = (struct gr_fx){GR_FX_OUT, 2, GR_LEN_BYTES, 0, 16};
		break;
	case PR_GET_PDEATHSIG:
	case PR_GET_TSC:
	case PR_GET_CHILD_SUBREAPER:
		*fx = (struct gr_fx){GR_FX_OUT, 2, GR_LEN_BYTES, 0, 4};
		break;
	case PR_GET_TID_ADDRESS:
		*fx = (struct gr_fx){GR_FX_OUT, 2, GR_LEN_BYTES, 0, 8};
		break;
	case PR_SET_SECCOMP:
		gr_panic(call->self, GR_PANIC_REFUSED,
			 "prctl(PR_SET_SECCOMP), a filter that would also judge the engine's system calls"
			 "\nswitch the program's sandbox off, e.g. --no-sandbox", 0, 0);
	case 59: // PR_SET_SYSCALL_USER_DISPATCH: the engine's own; as on a kernel that has none
		call->arg[0] = ~0ULL;
	}
}

// ioctl, fcntl and prctl are many calls under one number.
void gr_call_refine(struct gr_call *call)
{
	struct gr_fx *fx = &call->ioctl;
	if (call->nr == SYS_ioctl) {
		uint32_t request = (uint32_t)call->arg[1];
		const struct gr_ioctl *known = gr_ioctl_find(request);
		if (known)
			*fx = known->fx;
		else if (_IOC_DIR(request) & _IOC_READ)
			*fx = (struct gr_fx){GR_FX_INOUT, 3, GR_LEN_BYTES, 0, _IOC_SIZE(request)};
	} else if (call->nr == SYS_fcntl && (call->arg[1] == F_GETLK || call->arg[1] == F_OFD_GETLK)) {
		*fx = (struct gr_fx){GR_FX_INOUT, 3, GR_LEN_BYTES, 0, sizeof(struct flock)};
	} else if (call->nr == SYS_fcntl && (call->arg[1] == 16 || call->arg[1] == 1035 || call->arg[1] == 1037)) {
		*fx = (struct gr_fx){GR_FX_OUT, 3, GR_LEN_BYTES, 0, 8}; // F_GETOWN_EX, F_GET_RW_HINT, F_GET_FILE_RW_HINT
	} else if (call->nr == SYS_prctl) {
		refine_prctl(call, fx);
	} else if (call->nr == SYS_futex) { // those that store in the word by themselves
		unsigned op = call->arg[1] & 127;
		if (op == FUTEX_LOCK_PI || op == FUTEX_UNLOCK_PI || op == FUTEX_TRYLOCK_PI || op == 13) // FUTEX_LOCK_PI2
			*fx = (struct gr_fx){GR_FX_OUT_ANY, 1, GR_LEN_BYTES, 0, 4};
		else if (op == FUTEX_WAKE_OP || op == FUTEX_WAIT_REQUEUE_PI || op == FUTEX_CMP_REQUEUE_PI)
			*fx = (struct gr_fx){GR_FX_OUT_ANY, 5, GR_LEN_BYTES, 0, 4};
	}
}
