// The program's output on replay: it appears once, as it did, and where only its contents differ the replay goes on.
// Runs in: application threads, on the engine's stack.
// May call: core, replay.
// Owns: our slot's record of differing output, and where the output goes.
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/uio.h>

#include "../core/nolibc.h"
#include "../core/page.h"
#include "../core/raw.h"
#include "../replay/gate.h"
#include "descriptor.h"
#include "dispatch.h"

#define VECTOR_MAX 1024 // IOV_MAX: the kernel refuses more

static bool takes_buffer(long nr)
{
	return nr == SYS_write || nr == SYS_pwrite64 || nr == SYS_sendto;
}

static bool takes_vector(long nr)
{
	return nr == SYS_writev || nr == SYS_pwritev || nr == SYS_pwritev2;
}

uint32_t gr_output_of(const struct gr_call *call)
{
	if (!takes_buffer(call->nr) && !takes_vector(call->nr))
		return 0;
	uint8_t fd = gr_fd_get((int)call->arg[0]);
	return fd & GR_FD_OUT ? 1 : fd & GR_FD_ERR ? 2 : 0;
}

// The nth part of what is written; false behind the last one.
static bool part(const struct gr_call *call, uint64_t n, struct iovec *ret)
{
	if (takes_buffer(call->nr)) {
		*ret = (struct iovec){(void *)call->arg[1], call->arg[2]};
		return n == 0;
	}
	uint64_t addr = call->arg[1] + n * sizeof *ret;
	return n < call->arg[2] && n < VECTOR_MAX && gr_peek(ret, addr, sizeof *ret) == sizeof *ret;
}

uint64_t gr_output_length(const struct gr_call *call)
{
	struct iovec iov;
	uint64_t sum = 0;
	for (uint64_t n = 0; part(call, n, &iov); n++)
		sum += iov.iov_len;
	return sum;
}

// ---------------------------------------------------------------- soft desynchronisation
// INVARIANT(soft-is-told): the demo holds a write to the same output at this place; whatever else differs is a hard one.
bool gr_output_differs(struct gr_call *call, const struct gr_event *start)
{
	struct gr_soft *soft = &gr_slot->soft;
	uint32_t fd = gr_output_of(call);
	if (!fd || start->object != fd)
		return false;
	call->soft = true;
	call->told = start->result;
	if (soft->count++ == 0) {
		soft->tick = gr_replay.tick - 1;
		soft->want_len = start->result;
		soft->got_len = gr_output_length(call);
		soft->thread = call->self->pub.index;
		soft->fd = fd;
	}
	return true;
}

// What was written whole is written whole: the program does not see that it says something else than it did.
int64_t gr_output_result(const struct gr_call *call, int64_t recorded)
{
	return call->soft && recorded == call->told ? (int64_t)gr_output_length(call) : recorded;
}

// ---------------------------------------------------------------- showing it
// Our descriptors 1 and 2 are the user's, whatever the program did with its own: calls on those are not executed.
static int64_t put(int fd, const struct iovec *iov, uint64_t most)
{
	uint64_t len = iov->iov_len < most ? iov->iov_len : most, done = 0;
	while (done < len) {
		long n = GR_RAW(SYS_write, fd, (uint64_t)iov->iov_base + done, len - done);
		if (n == -EAGAIN) {
			struct pollfd wait = {.fd = fd, .events = POLLOUT};
			GR_RAW(SYS_poll, &wait, 1, -1);
		} else if (n < 0 && n != -EINTR) {
			return n;
		} else if (n > 0) {
			done += n;
		}
	}
	return done;
}

// A reader that has gone away must not kill the program, which wrote to another one: SIGPIPE is held and thrown away.
static int64_t put_all(int fd, const struct gr_call *call, uint64_t left)
{
	uint64_t pipe = 1ULL << (SIGPIPE - 1), before;
	int64_t done = 0;
	struct iovec iov;
	GR_RAW(SYS_rt_sigprocmask, SIG_BLOCK, &pipe, &before, 8);
	for (uint64_t n = 0; left && done >= 0 && part(call, n, &iov); n++) {
		done = put(fd, &iov, left);
		left -= done > 0 ? done : 0;
	}
	if (done == -EPIPE && !(before & pipe)) {
		uint64_t none[2] = {0};
		GR_RAW(SYS_rt_sigtimedwait, &pipe, 0, none, 8);
	}
	GR_RAW(SYS_rt_sigprocmask, SIG_SETMASK, &before, 0, 8);
	return done;
}

void gr_output_echo(const struct gr_call *call)
{
	uint32_t fd = gr_output_of(call);
	struct gr_event end;
	if (!fd || !(gr_slot->flags & GR_SLOT_ECHO) || gr_slot->echo_error || !gr_gate_peek(call->self, &end))
		return;
	int64_t wrote = gr_output_result(call, end.result);
	int64_t ret = wrote > 0 ? put_all(fd, call, wrote) : 0;
	if (ret < 0 && ret != -EBADF) // a closed output is what the user wanted
		__atomic_store_n(&gr_slot->echo_error, (uint32_t)-ret, __ATOMIC_RELEASE);
}
