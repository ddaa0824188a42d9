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

#include "../core/copy.h"
#include "../core/nolibc.h"
#include "../core/raw.h"
#include "../digest/digest.h"
#include "../log/together.h"
#include "../log/turn.h"
#include "../replay/halt.h"
#include "descriptor.h"
#include "dispatch.h"
#include "fd/output.h"

#define ATOMIC_WRITE 4096 // PIPE_BUF: what a pipe takes at once when it takes anything

// ---------------------------------------------------------------- which calls wait
#define OUTPUTS (1U << GR_FX_OUT | 1U << GR_FX_IOV_OUT | 1U << GR_FX_MSG_OUT | 1U << GR_FX_MMSG_OUT | 1U << GR_FX_MAKES)

static bool has_any(const struct gr_fx *fx, int count, uint32_t kinds)
{
	for (int i = 0; i < count && fx[i].kind; i++)
		if (kinds >> fx[i].kind & 1)
			return true;
	return false;
}

// Does a call that is made on the program's own memory store there?
bool gr_call_stores_early(const struct gr_call *call)
{
	int count;
	const struct gr_fx *fx = gr_call_fx(call, &count);
	return has_any(fx, count, OUTPUTS | 1U << GR_FX_OUT_ANY | 1U << GR_FX_INOUT | 1U << GR_FX_MAKES_AT |
				  1U << GR_FX_MMSG_IN | 1U << GR_FX_BEHIND | 1U << GR_FX_COMPARE);
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
	if (has_any(call->sys->fx, GR_FX_MAX, OUTPUTS))
		return !is_ready(call, POLLIN);
	bool writes = call->nr == SYS_write || call->nr == SYS_writev || call->nr == SYS_sendto || call->nr == SYS_sendmsg;
	return !writes || gr_output_length(call) > ATOMIC_WRITE || !is_ready(call, POLLOUT);
}

// ---------------------------------------------------------------- who looks at cores
static bool names_status(uint64_t path)
{
	static const char status[] = "status";
	char text[256];
	size_t n = 0, most = gr_peek(text, path, sizeof text), last = sizeof status - 1;
	while (n < most && text[n])
		n++;
	return n < most && n >= last && !memcmp(text + n - last, status, last);
}

// INVARIANT(cores-are-the-program's): see log/together.h. Where fewer bytes can be read than a path may have, it is no path.
void gr_call_cores(const struct gr_call *call)
{
	if (gr_mode != GR_MODE_RECORD)
		return;
	switch (call->nr) {
	case SYS_sched_getaffinity:
		gr_together_apart();
		break;
	case SYS_sched_setaffinity:
		gr_together_never();
		break;
	case SYS_open:
	case SYS_openat:
	case SYS_openat2:
		if (names_status(call->arg[call->nr != SYS_open]))
			gr_together_never();
	}
}

// ---------------------------------------------------------------- futexes
static bool waits(const uint64_t a[6])
{
	unsigned op = a[1] & FUTEX_CMD_MASK;
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

// What a wait listens to besides its futex, and the same as the signals' side of the engine says it.
struct ends { const uint32_t *held, *cancel; };

static unsigned kind_of(const struct gr_thread *self, struct ends ends)
{
	return (ends.held == &self->held ? GR_WAIT_SIGNALS : 0) | (ends.cancel == &self->cancel ? GR_WAIT_CANCELS : 0);
}

// A signal ends every wait of gr_wait_once, also one that listens to none.
static long by_kernel(struct gr_thread *self, const uint64_t a[6], struct ends ends)
{
	if (kind_of(self, ends))
		return gr_wait_once(self, SYS_futex, a, ends.held, ends.cancel);
	return gr_raw6(SYS_futex, a[0], a[1], a[2], a[3], a[4], a[5]);
}

// What is wrong with the arguments the kernel says by itself, without waiting.
static long wait_in_turn(struct gr_thread *self, const uint64_t a[6], unsigned kind, struct ends ends)
{
	bool relative = (a[1] & FUTEX_CMD_MASK) == FUTEX_WAIT;
	uint32_t now, mask = relative ? ~0u : (uint32_t)a[5];
	struct timespec until;
	struct gr_limit limit = {NULL, !relative && a[1] & FUTEX_CLOCK_REALTIME ? CLOCK_REALTIME : CLOCK_MONOTONIC};
	if (a[0] & 3 || !mask || gr_peek(&now, a[0], sizeof now) != sizeof now)
		return by_kernel(self, a, ends);
	if (a[3]) {
		if (gr_peek(&until, a[3], sizeof until) != sizeof until || !is_time(&until))
			return by_kernel(self, a, ends);
		if (relative)
			add_to_now(&until);
		limit.until = &until;
	}
	if (now != (uint32_t)a[2])
		return -EAGAIN;
	switch (gr_turn_wait(self, a[0], kind | kind_of(self, ends), limit, mask)) {
	case GR_WOKEN:
		return 0;
	case GR_WOKEN_LATE:
		return -ETIMEDOUT;
	case GR_WOKEN_ENDED:
		return GR_RESTART;
	default:
		return by_kernel(self, a, ends);
	}
}

// Wakes those who wait here, or has them wait for another word, and then those whom only the kernel knows.
static long wake_in_turn(struct gr_thread *self, const uint64_t a[6])
{
	unsigned op = a[1] & FUTEX_CMD_MASK;
	bool moves = op == FUTEX_REQUEUE || op == FUTEX_CMP_REQUEUE;
	uint32_t now, count = (uint32_t)a[2], most = moves ? (uint32_t)a[3] : 0;
	bool unlike = op == FUTEX_CMP_REQUEUE && (gr_peek(&now, a[0], sizeof now) != sizeof now || now != (uint32_t)a[5]);
	// What is wrong with the arguments the kernel says by itself.
	if (unlike || a[0] & 3 || (moves && (a[4] & 3 || (int)count < 0 || (int)most < 0)) || (op == FUTEX_WAKE_BITSET && !(uint32_t)a[5]))
		return gr_raw6(SYS_futex, a[0], a[1], a[2], a[3], a[4], a[5]);
	uint32_t woken = gr_turn_wake(self, a[0], count, op == FUTEX_WAKE_BITSET ? (uint32_t)a[5] : ~0u);
	uint32_t moved = moves ? gr_turn_move(self, a[0], most, a[4]) : 0;
	if (woken == count && moved == most)
		return woken + moved;
	long ret = gr_raw6(SYS_futex, a[0], a[1], count - woken, moves ? most - moved : a[3], a[4], a[5]);
	return GR_IS_ERR(ret) ? ret : woken + moved + ret;
}

// What the kernel has to do: a wait, mostly.
static long away(struct gr_thread *self, const uint64_t a[6], struct ends ends)
{
	self->seat.stores = !waits(a); // the kernel itself takes and gives a lock that inherits priority
	gr_turn_call(self, (a[1] & FUTEX_CMD_MASK) != FUTEX_UNLOCK_PI);
	long ret = by_kernel(self, a, ends);
	gr_turn_back(self);
	self->seat.stores = false;
	return ret;
}

static long in_turn(struct gr_thread *self, const uint64_t a[6], unsigned kind, struct ends ends)
{
	if (waits(a))
		return wait_in_turn(self, a, kind, ends);
	switch (a[1] & FUTEX_CMD_MASK) {
	case FUTEX_WAKE:
	case FUTEX_WAKE_BITSET:
	case FUTEX_REQUEUE:
	case FUTEX_CMP_REQUEUE:
		return wake_in_turn(self, a);
	}
	return away(self, a, ends); // priority inheritance is the kernel's business
}

long gr_futex_in_turn(struct gr_thread *self, long nr, const uint64_t a[6], const uint32_t *held, const uint32_t *cancel)
{
	(void)nr;
	return in_turn(self, a, GR_WAIT_TOLD, (struct ends){held, cancel});
}

// Is it a word that the kernel clears at a thread's end?
static bool is_life(uint64_t word)
{
	for (uint32_t i = 0; i < GR_LIVE_THREADS; i++) {
		const struct gr_thread *t = gr_thread_block(i);
		if (gr_thread_untouched(t))
			return false;
		if (t->pub.state != GR_T_FREE && (uint64_t)t->clears == word)
			return true;
	}
	return false;
}

// In order `parallel`: a place to stand at for a digest.
static long standing(struct gr_thread *self, long nr, const uint64_t a[6], const uint32_t *held, const uint32_t *cancel)
{
	if (!waits(a) || !gr_digest_beside())
		return gr_wait_once(self, nr, a, held, cancel);
	gr_halt_stand(self);
	long ret = by_kernel(self, a, (struct ends){held, cancel});
	gr_halt_go(self);
	return ret;
}

// The futex of a library function on behalf of an operation, or of the library's own. Others than private ones may be woken
// by other processes or by the kernel, which has to wait then; a thread's end is the exception, which the engine sees.
long gr_nested_in_turn(struct gr_thread *self, long nr, const uint64_t a[6], const uint32_t *held, const uint32_t *cancel)
{
	struct ends ends = {held, cancel};
	if (gr_mode == GR_MODE_OFF) // a child, in which a handler came back: there are no turns
		return gr_wait_once(self, nr, a, held, cancel);
	if (!waits(a) || a[1] & FUTEX_PRIVATE_FLAG || is_life(a[0]))
		return in_turn(self, a, GR_WAIT_RETRY, ends);
	return away(self, a, ends);
}

long gr_call_nested(const struct gr_call *call)
{
	struct gr_thread *self = call->self;
	if (call->nr != SYS_futex || gr_mode != GR_MODE_RECORD)
		return gr_call_kernel(call);
	if (gr_signal_may_wait(call->arg))
		gr_signal_block(self);
	gr_wait *once = gr_turn_on ? gr_nested_in_turn : gr_halt_is_place(self) ? standing : gr_wait_once;
	self->called = call->frame->rip;
	long ret = gr_signal_wait_within(self, call->nr, call->arg, once);
	self->called = 0;
	return ret;
}
