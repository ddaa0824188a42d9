// System calls where one thread at a time runs: which ones wait, and futexes without the kernel.
// Runs in: application threads while recording, on the engine's stack.
// May call: core, log/turn.
// Owns: nothing.
//
// Threads of the program wait for each other's futexes in the engine (INVARIANT(choice-is-the-seed's)). With the words of a
// futex only changed by who has the turn, looking at the word and beginning to wait are one step.
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <sys/file.h>

#include "../core/nolibc.h"
#include "../core/raw.h"
#include "../log/turn.h"
#include "../replay/cancel.h"
#include "descriptor.h"
#include "dispatch.h"
#include "fd/output.h"

#define ATOMIC_WRITE 4096 // PIPE_BUF: what a pipe takes at once when it takes anything

// ---------------------------------------------------------------- which calls wait
static bool has_output(const struct gr_call *call)
{
	for (int i = 0; i < GR_FX_MAX && call->sys->fx[i].kind; i++)
		switch ((enum gr_fx_kind)call->sys->fx[i].kind) {
		case GR_FX_OUT:
		case GR_FX_IOV_OUT:
		case GR_FX_MSG_OUT:
		case GR_FX_MMSG_OUT:
		case GR_FX_MAKES:
			return true;
		default:
			break;
		}
	return false;
}

static bool is_ready(const struct gr_call *call, short events)
{
	struct pollfd fd = {.fd = (int)call->arg[0], .events = events};
	struct timespec now = {0, 0};
	return GR_RAW(SYS_ppoll, &fd, 1, &now, 0, 8) != 0;
}

// Will it wait, as far as can be told? Whatever waits all the same is overtaken after a while.
bool gr_call_waits(const struct gr_call *call)
{
	if (!(call->sys->flags & GR_SF_BLOCKS))
		return false;
	switch (call->nr) {
	case SYS_poll:
		return (int)call->arg[2] != 0;
	case SYS_epoll_wait:
	case SYS_epoll_pwait:
		return (int)call->arg[3] != 0;
	case SYS_flock:
		return !(call->arg[1] & LOCK_NB);
	case SYS_fcntl:
		return call->arg[1] == F_SETLKW || call->arg[1] == F_OFD_SETLKW;
	case SYS_ioctl:
	case SYS_open:
	case SYS_openat:
	case SYS_openat2:
		return false;
	}
	if (call->sys->fx[0].kind != GR_FX_FD || call->sys->fx[0].arg != 1)
		return true;
	if ((gr_fd_get(call->arg[0]) & GR_FD_CLASS) == GR_CLASS_file)
		return false;
	if (has_output(call))
		return !is_ready(call, POLLIN);
	bool writes = call->nr == SYS_write || call->nr == SYS_writev || call->nr == SYS_sendto || call->nr == SYS_sendmsg;
	return !writes || gr_output_length(call) > ATOMIC_WRITE || !is_ready(call, POLLOUT);
}

// ---------------------------------------------------------------- futexes
static bool waits(const struct gr_call *call)
{
	unsigned op = call->arg[1] & FUTEX_CMD_MASK;
	return op == FUTEX_WAIT || op == FUTEX_WAIT_BITSET;
}

static bool is_time(const struct timespec *time)
{
	return time->tv_sec >= 0 && time->tv_nsec >= 0 && time->tv_nsec < 1000000000;
}

static void add_to_now(struct timespec *time)
{
	struct timespec now;
	GR_RAW(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
	time->tv_sec += now.tv_sec + (time->tv_nsec + now.tv_nsec) / 1000000000;
	time->tv_nsec = (time->tv_nsec + now.tv_nsec) % 1000000000;
}

// What is wrong with the arguments the kernel says by itself, without waiting.
static long wait_in_turn(struct gr_call *call, unsigned kind)
{
	const uint64_t *a = call->arg;
	bool relative = (a[1] & FUTEX_CMD_MASK) == FUTEX_WAIT;
	uint32_t now, mask = relative ? ~0u : (uint32_t)a[5];
	struct timespec until;
	struct gr_limit limit = {NULL, !relative && a[1] & FUTEX_CLOCK_REALTIME ? CLOCK_REALTIME : CLOCK_MONOTONIC};
	if (a[0] & 3 || !mask || gr_peek(&now, a[0], sizeof now) != sizeof now)
		return gr_call_kernel(call);
	if (a[3]) {
		if (gr_peek(&until, a[3], sizeof until) != sizeof until || !is_time(&until))
			return gr_call_kernel(call);
		if (relative)
			add_to_now(&until);
		limit.until = &until;
	}
	if (now != (uint32_t)a[2])
		return -EAGAIN;
	switch (gr_turn_wait(call->self, a[0], kind | GR_WAIT_SIGNALS, limit, mask)) {
	case GR_WOKEN:
		return 0;
	case GR_WOKEN_LATE:
		return -ETIMEDOUT;
	case GR_WOKEN_SIGNAL:
		return -EINTR;
	default:
		return gr_call_kernel(call);
	}
}

// Wakes those who wait here, and then those whom only the kernel knows.
static long wake_in_turn(struct gr_call *call)
{
	const uint64_t *a = call->arg;
	unsigned op = a[1] & FUTEX_CMD_MASK;
	bool moves = op == FUTEX_REQUEUE || op == FUTEX_CMP_REQUEUE;
	uint32_t now, count = (uint32_t)a[2] + (moves ? (uint32_t)a[3] : 0);
	if (moves && count < (uint32_t)a[2])
		count = ~0u;
	if (op == FUTEX_CMP_REQUEUE && (gr_peek(&now, a[0], sizeof now) != sizeof now || now != (uint32_t)a[5]))
		return gr_call_kernel(call);
	// Who would be moved to another word is woken in place of that, which a futex may always do.
	uint32_t woken = gr_turn_wake(call->self, a[0], count, op == FUTEX_WAKE_BITSET ? (uint32_t)a[5] : ~0u);
	if (woken == count)
		return woken;
	struct gr_call rest = *call;
	rest.arg[2] = moves ? a[2] : count - woken;
	long ret = gr_call_kernel(&rest);
	return GR_IS_ERR(ret) ? ret : woken + ret;
}

long gr_futex_in_turn(struct gr_call *call, unsigned kind)
{
	long ret;
	if (waits(call))
		return wait_in_turn(call, kind);
	switch (call->arg[1] & FUTEX_CMD_MASK) {
	case FUTEX_WAKE:
	case FUTEX_WAKE_BITSET:
	case FUTEX_REQUEUE:
	case FUTEX_CMP_REQUEUE:
		return wake_in_turn(call);
	}
	gr_turn_call(call->self, true); // priority inheritance is the kernel's business
	ret = gr_call_kernel(call);
	gr_turn_back(call->self);
	return ret;
}

// The futex of a library function on behalf of an operation. Others than private ones may be woken by other processes or
// by the kernel, which has to wait then; a thread's end is the exception, which the engine sees. A wait in a cancellation
// point is given up as if its time were up.
long gr_nested_in_turn(struct gr_call *call)
{
	struct gr_thread *self = call->self;
	bool open = self->point && gr_cancel_open(self);
	long ret;
	if (waits(call) && open && __atomic_load_n(&self->cancel, __ATOMIC_SEQ_CST) == 1)
		return -ETIMEDOUT;
	if (!waits(call) || call->arg[1] & FUTEX_PRIVATE_FLAG || self->seat.joins)
		return gr_futex_in_turn(call, GR_WAIT_RETRY);
	gr_turn_call(self, true);
	ret = open ? gr_raw_unless(&self->cancel, call->arg, call->nr) : gr_call_kernel(call);
	gr_turn_back(self);
	return open && ret == -EINTR && __atomic_load_n(&self->cancel, __ATOMIC_SEQ_CST) == 1 ? -ETIMEDOUT : ret;
}
