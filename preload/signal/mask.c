// Masks and alternate stacks: the program's are kept here, the kernel has the engine's.
// Runs in: application threads, on the engine's stack.
// May call: core.
// Owns: the signal mask and the alternate stack that the kernel has for each thread.
#include <errno.h>

#include "../core/copy.h"
#include "../core/nolibc.h"
#include "../core/page.h"
#include "../core/raw.h"
#include "frame.h"

#define AUTODISARM 0x80000000u
#define SMALLEST 2048 // MINSIGSTKSZ, which the kernel has as it ever was
#define UNBLOCKABLE (GR_BIT(SIGKILL) | GR_BIT(SIGSTOP))

// ---------------------------------------------------------------- masks
// On replay no signal comes from the kernel that the program should see, so its mask never gets there: a user can still
// end a replay of a program that blocks SIGINT.
uint64_t gr_mask_kernel(const struct gr_thread *self)
{
	uint64_t mask = 0;
	if (gr_mode == GR_MODE_REPLAY) {
		GR_RAW(SYS_rt_sigprocmask, SIG_BLOCK, 0, &mask, 8);
		return mask;
	}
	return (self->sigmask | (self->held ? gr_sigact_handled : 0)) & ~GR_SIGNALS_KEPT;
}

long gr_sigprocmask(struct gr_thread *self, long how, uint64_t set, uint64_t old, uint64_t size)
{
	uint64_t wanted, was = self->sigmask;
	if (size != 8)
		return -EINVAL;
	if (set) {
		if (gr_peek(&wanted, set, sizeof wanted) != sizeof wanted)
			return -EFAULT;
		wanted &= ~UNBLOCKABLE;
		switch (how) {
		case SIG_BLOCK:
			self->sigmask |= wanted;
			break;
		case SIG_UNBLOCK:
			self->sigmask &= ~wanted;
			break;
		case SIG_SETMASK:
			self->sigmask = wanted;
			break;
		default:
			return -EINVAL;
		}
		if (gr_mode != GR_MODE_REPLAY) {
			uint64_t mask = gr_mask_kernel(self);
			GR_RAW(SYS_rt_sigprocmask, SIG_SETMASK, &mask, 0, 8);
		}
	}
	return old && gr_poke(old, &was, sizeof was) != sizeof was ? -EFAULT : 0;
}

bool gr_signal_temporary(long nr, const uint64_t arg[6], uint64_t *ret)
{
	uint64_t pair[2] = {0, 0};
	switch (nr) {
	case SYS_rt_sigsuspend:
		pair[0] = arg[0], pair[1] = arg[1];
		break;
	case SYS_ppoll:
		pair[0] = arg[3], pair[1] = arg[4];
		break;
	case SYS_epoll_pwait:
	case 441: // epoll_pwait2
		pair[0] = arg[4], pair[1] = arg[5];
		break;
	case SYS_pselect6:
		if (arg[5])
			gr_peek(pair, arg[5], sizeof pair);
		break;
	}
	// What the kernel would refuse is left to it.
	if (!pair[0] || pair[1] != 8 || gr_peek(ret, pair[0], sizeof *ret) != sizeof *ret)
		return false;
	*ret &= ~UNBLOCKABLE;
	return true;
}

// ---------------------------------------------------------------- alternate stacks
struct gr_kstack gr_altstack_engine(const struct gr_thread *self)
{
	return (struct gr_kstack){(uint64_t)self + GR_BLOCK_ALTSTACK, 0, 0, GR_ALTSTACK};
}

static bool is_on(const struct gr_thread *self, uint64_t rsp)
{
	const struct gr_altstack *alt = &self->altstack;
	return !(alt->flags & AUTODISARM) && rsp > alt->sp && rsp - alt->sp <= alt->size;
}

bool gr_altstack_holds(const struct gr_thread *self, uint64_t rsp)
{
	return is_on(self, rsp);
}

bool gr_altstack_usable(const struct gr_thread *self, uint64_t rsp)
{
	return self->altstack.size && !is_on(self, rsp);
}

static long set_altstack(struct gr_thread *self, uint64_t rsp, const struct gr_kstack *stack)
{
	uint32_t mode = stack->flags & ~AUTODISARM;
	if (is_on(self, rsp))
		return -EPERM;
	if (mode != SS_DISABLE && mode != SS_ONSTACK && mode != 0)
		return -EINVAL;
	if (mode == SS_DISABLE) {
		self->altstack = (struct gr_altstack){.flags = stack->flags};
		return 0;
	}
	if (stack->size < SMALLEST)
		return -ENOMEM;
	self->altstack = (struct gr_altstack){stack->sp, stack->size, stack->flags};
	return 0;
}

void gr_altstack_restore(struct gr_thread *self, uint64_t rsp, const struct gr_kstack *stack)
{
	set_altstack(self, rsp, stack);
}

long gr_sigaltstack(struct gr_thread *self, uint64_t rsp, uint64_t set, uint64_t old)
{
	struct gr_kstack wanted;
	const struct gr_altstack *alt = &self->altstack;
	const struct gr_kstack was = {
		.sp = alt->sp,
		.flags = (!alt->size ? SS_DISABLE : is_on(self, rsp) ? SS_ONSTACK : 0) | (alt->flags & AUTODISARM),
		.size = alt->size,
	};
	if (set) {
		if (gr_peek(&wanted, set, sizeof wanted) != sizeof wanted)
			return -EFAULT;
		long ret = set_altstack(self, rsp, &wanted);
		if (ret)
			return ret;
	}
	return old && gr_poke(old, &was, sizeof was) != sizeof was ? -EFAULT : 0;
}
