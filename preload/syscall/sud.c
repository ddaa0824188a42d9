// Syscall User Dispatch: the kernel sends every system call that is not the engine's own here.
// Runs in: the SIGSYS handler, on the engine's alternate stack; it only turns the thread towards the door.
// May call: core.
// Owns: the SIGSYS handler.
#include <errno.h>
#include <linux/audit.h>
#include <signal.h>
#include <sys/prctl.h>
#include <ucontext.h>

#include "../core/copy.h"
#include "../core/page.h"
#include "../core/panic.h"
#include "../core/raw.h"
#include "../core/thread.h"
#include "../ctl/slot.h"
#include "../log/log.h"
#include "../replay/gate.h"
#include "../signal/signal.h"
#include "dispatch.h"

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#define PR_SYS_DISPATCH_ON 1
#endif

// A debugger lets SIGSYS pass unseen, as the door's, so one that was sent is told here. True: it is to be forgotten.
static bool told_to_debugger(int sig, const siginfo_t *info)
{
	const struct gr_thread *self = gr_self;
	bool wanted = self && gr_mode == GR_MODE_RECORD && !gr_closed && gr_slot->flags & GR_SLOT_DEBUGGED &&
		      gr_ctl->caught[GR_CAUGHT_SENT / 8] & 1 << GR_CAUGHT_SENT % 8 && !(self->sigmask & 1ULL << (sig - 1));
	return wanted && gr_debug_call(GR_DEBUG_SENT, sig, info);
}

// The kernel has put back rax; rip is behind the instruction. From here on it is as if the instruction had been a jump.
static void to_door(int sig, siginfo_t *info, void *context)
{
	if (info->si_code != 2) { // SYS_USER_DISPATCH; somebody sent it
		if (!told_to_debugger(sig, info))
			gr_signal_foreign(sig, info, context);
		return;
	}
	greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;
	if (gr_copy_elsewhere)
		gr_copy_elsewhere(sig, info, context);
	if (info->si_arch != AUDIT_ARCH_X86_64) { // its number means another call
		if (gr_mode != GR_MODE_OFF)
			gr_panic(gr_self, GR_PANIC_REFUSED, "a 32-bit system call (int $0x80)\nbuild the program without it", 0, 0);
		regs[REG_RAX] = -ENOSYS;
		return;
	}
	regs[REG_RCX] = regs[REG_RIP];
	regs[REG_RIP] = (greg_t)gr_door_trapped;
}

void gr_sud_arm(void)
{
	GR_RAW(SYS_prctl, PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, __start_gr_gate, __stop_gr_gate - __start_gr_gate, 0);
}

void gr_sud_disarm(void)
{
	GR_RAW(SYS_prctl, PR_SET_SYSCALL_USER_DISPATCH, 0, 0, 0, 0);
}

bool gr_sud_init(void)
{
	const struct { void *handler; uint64_t flags; void *restorer; uint64_t mask; } action = {
		to_door, SA_SIGINFO | SA_ONSTACK | SA_NODEFER | 0x04000000, gr_restorer, 0,
	};
	if (GR_RAW(SYS_rt_sigaction, SIGSYS, &action, 0, 8))
		return false;
	return GR_RAW(SYS_prctl, PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, __start_gr_gate,
		      __stop_gr_gate - __start_gr_gate, 0) == 0;
}
