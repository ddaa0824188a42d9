// The program's output on replay: it appears once, as it did, and where only its contents differ the replay goes on.
// Runs in: application threads, on the engine's stack; gr_output_init in the constructor of a replay.
// May call: core, replay.
// Owns: our slot's record of differing output, and two descriptors of a replay that the program cannot close.
#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "../../core/copy.h"
#include "../../core/nolibc.h"
#include "../../core/page.h"
#include "../../core/raw.h"
#include "../../replay/gate.h"
#include "../descriptor.h"

#define VECTOR_MAX 1024 // IOV_MAX: the kernel refuses more

static bool takes_buffer(long nr)
{
	return nr == SYS_write || nr == SYS_pwrite64 || nr == SYS_sendto;
}

static bool takes_vector(long nr)
{
	return nr == SYS_writev || nr == SYS_pwritev || nr == SYS_pwritev2;
}

uint32_t gr_output_behind(uint64_t fd)
{
	uint8_t entry = gr_fd_get((int)fd);
	return entry & GR_FD_OUT ? 1 : entry & GR_FD_ERR ? 2 : 0;
}

uint32_t gr_output_of(const struct gr_call *call)
{
	bool takes = takes_buffer(call->nr) || takes_vector(call->nr) || call->nr == SYS_sendmsg;
	return takes ? gr_output_behind(call->arg[0]) : 0;
}

// The nth part of what is written; false behind the last one.
static bool part(const struct gr_call *call, uint64_t n, struct iovec *ret)
{
	if (takes_buffer(call->nr)) {
		*ret = (struct iovec){(void *)call->arg[1], call->arg[2]};
		return n == 0;
	}
	uint64_t vector = call->arg[1], count = call->arg[2];
	if (call->nr == SYS_sendmsg) {
		struct msghdr msg;
		if (gr_peek(&msg, call->arg[1], sizeof msg) != sizeof msg)
			return false;
		vector = (uint64_t)msg.msg_iov;
		count = msg.msg_iovlen;
	}
	uint64_t addr = vector + n * sizeof *ret;
	return n < count && n < VECTOR_MAX && gr_peek(ret, addr, sizeof *ret) == sizeof *ret;
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
static int outputs[2] = {1, 2};
static int64_t shift[2]; // from a place in the recording's file to that in ours

static bool is_placed(int fd)
{
	struct stat st;
	return !GR_RAW(SYS_fstat, fd, &st) && S_ISREG(st.st_mode) && !(GR_RAW(SYS_fcntl, fd, F_GETFL) & O_APPEND);
}

static bool takes_place(const struct gr_call *call)
{
	return call->nr == SYS_pwrite64 || call->nr == SYS_pwritev || (call->nr == SYS_pwritev2 && call->arg[3] != ~0ULL);
}

uint8_t gr_output_placed(const struct gr_call *call)
{
	if (call->result < 0 || (call->nr != SYS_lseek && !takes_place(call)) || !gr_output_behind(call->arg[0]))
		return 0;
	return is_placed(call->arg[0]) ? GR_OUTPUT_PLACED : 0;
}

// Our descriptor, where this call's place counts there, too; else -1.
static int place_of(const struct gr_call *call, const struct gr_event *end)
{
	uint32_t output = gr_output_behind(call->arg[0]);
	bool shown = output && end->flags & GR_OUTPUT_PLACED && gr_slot->flags & GR_SLOT_ECHO;
	return shown && is_placed(outputs[output - 1]) ? outputs[output - 1] : -1;
}

void gr_output_move(const struct gr_call *call, const struct gr_event *end)
{
	int fd = call->nr == SYS_lseek ? place_of(call, end) : -1;
	if (fd < 0)
		return;
	int64_t *by = &shift[gr_output_behind(call->arg[0]) - 1];
	long place = GR_RAW(SYS_lseek, fd, call->arg[2] == SEEK_SET ? call->arg[1] + *by : call->arg[1], call->arg[2]);
	if (call->arg[2] == SEEK_CUR && place >= 0)
		*by = place - end->result;
}

void gr_output_init(void)
{
	struct rlimit limit;
	// INVARIANT(no-high-descriptor): who shows nothing needs none. Each copy of a process copies its table of descriptors up to the
	// highest one, and the limit may be a million.
	if (!(gr_slot->flags & GR_SLOT_ECHO) || GR_RAW(SYS_getrlimit, RLIMIT_NOFILE, &limit))
		return;
	uint64_t hidden = (limit.rlim_cur < GR_DESCRIPTORS ? limit.rlim_cur : GR_DESCRIPTORS) - 4; // behind what a program opens
	for (int i = 0; i < 2; i++) {
		long fd = GR_RAW(SYS_fcntl, i + 1, F_DUPFD_CLOEXEC, hidden);
		if (!GR_IS_ERR(fd))
			outputs[i] = fd;
		long place = GR_RAW(SYS_lseek, outputs[i], 0, SEEK_CUR);
		shift[i] = place > 0 ? place : 0; // as if the recording's file had been empty, while nobody says more
	}
}

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
static void show(uint32_t output, const struct iovec *bytes, const struct gr_call *call, uint64_t left)
{
	uint64_t pipe = 1ULL << (SIGPIPE - 1), before;
	int64_t done = 0;
	struct iovec iov;
	if (!(gr_slot->flags & GR_SLOT_ECHO) || gr_slot->echo_error)
		return;
	GR_RAW(SYS_rt_sigprocmask, SIG_BLOCK, &pipe, &before, 8);
	if (bytes)
		done = put(outputs[output - 1], bytes, left);
	for (uint64_t n = 0; call && left && done >= 0 && part(call, n, &iov); n++) {
		done = put(outputs[output - 1], &iov, left);
		left -= done > 0 ? done : 0;
	}
	if (done == -EPIPE && !(before & pipe)) {
		uint64_t none[2] = {0};
		GR_RAW(SYS_rt_sigtimedwait, &pipe, 0, none, 8);
	}
	GR_RAW(SYS_rt_sigprocmask, SIG_SETMASK, &before, 0, 8);
	if (done < 0 && done != -EBADF) // a closed output is what the user wanted
		__atomic_store_n(&gr_slot->echo_error, (uint32_t)-done, __ATOMIC_RELEASE);
}

void gr_output_bytes(uint32_t output, const void *bytes, uint64_t len)
{
	struct iovec iov = {(void *)bytes, len};
	if (output == 1 || output == 2)
		show(output, &iov, NULL, len);
}

void gr_output_echo(const struct gr_call *call)
{
	uint32_t output = gr_output_of(call);
	struct gr_event end;
	if (!output || !gr_gate_peek(call->self, &end))
		return;
	int64_t wrote = gr_output_result(call, end.result), before = 0;
	int fd = takes_place(call) ? place_of(call, &end) : -1;
	if (fd >= 0) {
		before = GR_RAW(SYS_lseek, fd, 0, SEEK_CUR);
		GR_RAW(SYS_lseek, fd, call->arg[3] + shift[output - 1], SEEK_SET);
	}
	if (wrote > 0)
		show(output, NULL, call, wrote);
	if (fd >= 0)
		GR_RAW(SYS_lseek, fd, before, SEEK_SET);
}
