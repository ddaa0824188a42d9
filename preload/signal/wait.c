// Waiting: a call that may wait is issued so that every signal to its thread ends it; see signal.h.
// Runs in: application threads while recording, on the engine's stack.
// May call: core.
// Owns: what a call that was ended by a signal comes back with.
#include <errno.h>
#include <linux/futex.h>
#include <time.h>

#include "../core/copy.h"
#include "../core/nolibc.h"
#include "../core/raw.h"
#include "../replay/cancel.h"
#include "loop/loop.h"

// signal(7): calls that a handler ends also where it was installed with SA_RESTART.
static bool never_restarts(long nr, const uint64_t arg[6])
{
	switch (nr) {
	case SYS_pause:
	case SYS_rt_sigsuspend:
	case SYS_rt_sigtimedwait:
	case SYS_nanosleep:
	case SYS_clock_nanosleep:
	case SYS_poll:
	case SYS_ppoll:
	case SYS_select:
	case SYS_pselect6:
	case SYS_epoll_wait:
	case SYS_epoll_pwait:
	case 441: // epoll_pwait2
	case SYS_msgrcv:
	case SYS_msgsnd:
	case SYS_semop:
	case SYS_semtimedop:
		return true;
	case SYS_futex: // with a timeout
		return ((arg[1] & FUTEX_CMD_MASK) == FUTEX_WAIT || (arg[1] & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET) && arg[3];
	}
	return false;
}

// A sleep that was ended before it began has all of its time left.
static void tell_rest(long nr, const uint64_t arg[6])
{
	uint64_t from = 0, to = 0;
	struct timespec rest;
	if (nr == SYS_nanosleep)
		from = arg[0], to = arg[1];
	else if (nr == SYS_clock_nanosleep && !(arg[1] & TIMER_ABSTIME))
		from = arg[2], to = arg[3];
	if (to && gr_peek(&rest, from, sizeof rest) == sizeof rest)
		gr_poke(to, &rest, sizeof rest);
}

long gr_wait_once(struct gr_thread *self, long nr, const uint64_t a[6], const uint32_t *held, const uint32_t *cancel)
{
	(void)self;
	uint64_t b[6], mask, pair[2];
	memcpy(b, a, sizeof b);
	if (gr_signal_temporary(nr, a, &mask)) {
		mask &= ~GR_SIGNALS_KEPT;
		pair[0] = (uint64_t)&mask;
		pair[1] = 8;
		switch (nr) {
		case SYS_rt_sigsuspend:
			b[0] = (uint64_t)&mask;
			break;
		case SYS_ppoll:
			b[3] = (uint64_t)&mask;
			break;
		case SYS_pselect6:
			b[5] = (uint64_t)pair;
			break;
		default:
			b[4] = (uint64_t)&mask;
		}
	}
	return gr_wait6(nr, b[0], b[1], b[2], b[3], b[4], b[5], held, cancel);
}

// ---------------------------------------------------------------- signals that the kernel does not know to be pending
static uint64_t wanted(const struct gr_thread *self, long nr, const uint64_t arg[6])
{
	uint64_t set;
	bool asks = nr == SYS_rt_sigtimedwait && self->stash.signals && arg[3] == sizeof set;
	return asks && gr_peek(&set, arg[0], sizeof set) == sizeof set ? set & self->stash.signals : 0;
}

bool gr_stash_take(struct gr_thread *self, long nr, const uint64_t arg[6], long *ret)
{
	uint64_t found = wanted(self, nr, arg);
	if (!found)
		return false;
	int sig = __builtin_ctzll(found) + 1;
	struct gr_siginfo info = self->stash.info[gr_stash_place(sig)];
	__atomic_fetch_and(&self->stash.signals, ~GR_BIT(sig), __ATOMIC_RELAXED);
	*ret = arg[1] && gr_poke(arg[1], &info, sizeof info) != sizeof info ? -EFAULT : sig;
	return true;
}

void gr_stash_show(const struct gr_thread *self, long nr, const uint64_t arg[6])
{
	uint64_t set;
	if (nr == SYS_rt_sigpending && self->stash.signals && arg[1] == sizeof set && gr_peek(&set, arg[0], sizeof set) == sizeof set) {
		set |= self->stash.signals & self->sigmask;
		gr_poke(arg[0], &set, sizeof set);
	}
}

// With a signal held already the kernel gets the call nevertheless, since it need not wait at all: a timer ends it if it
// does. Other ways to wait look for themselves whether they have to.
static long issue(struct gr_thread *self, long nr, const uint64_t arg[6], gr_wait *once, const uint32_t *cancel)
{
	static const uint32_t none;
	bool kick = once == gr_wait_once && gr_signal_held(self) && gr_tick_arm(self, GR_TICK_KICK, GR_TICK_LOST);
	long ret = once(self, nr, arg, kick ? &none : &self->held, cancel);
	if (kick)
		gr_tick_arm(self, 0, 0);
	return ret;
}

// INVARIANT(only-waits-are-ended): a signal in the moment in front of the instruction comes back as GR_RESTART, and where that is to be
// an error the kernel gets the call once more, as one with a signal held: a pipe that has room takes what is written to it.
static bool need_not_wait(long nr, const uint64_t arg[6], gr_wait *once)
{
	uint64_t mask;
	return once == gr_wait_once && !gr_signal_temporary(nr, arg, &mask);
}

static long wait_on(struct gr_thread *self, long nr, const uint64_t arg[6], gr_wait *once, const uint32_t *cancel, long ret)
{
	bool again = false;
	for (;; ret = issue(self, nr, arg, once, cancel)) {
		if (ret != GR_RESTART && ret != -EINTR)
			return ret;
		if (__atomic_load_n(cancel, __ATOMIC_SEQ_CST) == 1)
			return -EINTR;
		if (!gr_signal_held(self)) {
			if (ret == -EINTR || wanted(self, nr, arg))
				return -EINTR;
			continue;
		}
		struct gr_sigact act = gr_sigact_get(self->held);
		if (!gr_sigact_runs(&act) && ret == GR_RESTART)
			return GR_RESTART; // nothing will run, and the call begins anew
		if (ret == -EINTR)
			return ret;
		if (!never_restarts(nr, arg) && act.flags & SA_RESTART)
			return GR_RESTART;
		if (!again && need_not_wait(nr, arg, once)) {
			again = true;
			continue;
		}
		tell_rest(nr, arg);
		return -EINTR;
	}
}

long gr_signal_wait(struct gr_thread *self, long nr, const uint64_t arg[6], gr_wait *once)
{
	static const uint32_t none;
	const uint32_t *cancel = gr_cancel_open(self) ? &self->cancel : &none;
	gr_tick_rest(self);
	return wait_on(self, nr, arg, once, cancel, issue(self, nr, arg, once, cancel));
}

long gr_signal_waited(struct gr_thread *self, long nr, const uint64_t arg[6], long ret)
{
	static const uint32_t none;
	return wait_on(self, nr, arg, gr_wait_once, gr_cancel_open(self) ? &self->cancel : &none, ret);
}
