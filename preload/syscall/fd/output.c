// The program's output on replay: it appears once, as it did, and where only its contents differ the replay goes on.
// Runs in: application threads, on the engine's stack; gr_output_init in the constructor of a replay.
// May call: core, replay.
// Owns: our slot's record of differing output, and two descriptors of a replay that the program cannot close.
#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
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
// Everything goes to the controller, which writes it where the user wants it and knows the places in that file.
static int out = 1;
_Static_assert(sizeof(struct gr_said) + GR_SAID_MOST == PIPE_BUF, "a message is one packet of a pipe");

static bool shows(void)
{
	return gr_slot->flags & GR_SLOT_ECHO && !gr_slot->echo_error;
}

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

void gr_output_init(void)
{
	struct rlimit limit;
	// INVARIANT(no-high-descriptor): what shows nothing needs none. Each copy of a process copies its table of descriptors up to the
	// highest one, and the limit may be a million.
	if (!(gr_slot->flags & GR_SLOT_ECHO) || GR_RAW(SYS_getrlimit, RLIMIT_NOFILE, &limit))
		return;
	uint64_t hidden = (limit.rlim_cur < GR_DESCRIPTORS ? limit.rlim_cur : GR_DESCRIPTORS) - 4; // behind what a program opens
	long fd = GR_RAW(SYS_fcntl, out, F_DUPFD_CLOEXEC, hidden);
	if (!GR_IS_ERR(fd))
		out = fd;
}

// One message.
static long say(const struct gr_said *head, uint64_t from, uint64_t len)
{
	struct iovec iov[2] = {{(void *)head, sizeof *head}, {(void *)from, len}};
	for (;;) {
		long n = GR_RAW(SYS_writev, out, iov, len ? 2 : 1);
		if (n != -EINTR)
			return n < 0 ? n : n - (long)sizeof *head;
	}
}

static int64_t put(struct gr_said *head, const struct iovec *iov, uint64_t most)
{
	uint64_t len = iov->iov_len < most ? iov->iov_len : most, done = 0;
	while (done < len) {
		uint64_t some = len - done < GR_SAID_MOST ? len - done : GR_SAID_MOST;
		long n = say(head, (uint64_t)iov->iov_base + done, some);
		if (n < 0)
			return n;
		done += n;
		head->place += n;
	}
	return done;
}

// A controller that has closed its end, because the user's reader has gone away, must not kill the program, which wrote to another
// one: SIGPIPE is held and thrown away.
static void show(struct gr_said *head, const struct iovec *bytes, const struct gr_call *call, uint64_t left)
{
	uint64_t pipe = 1ULL << (SIGPIPE - 1), before;
	int64_t done = 0;
	struct iovec iov;
	head->magic = GR_SAID_MAGIC;
	GR_RAW(SYS_rt_sigprocmask, SIG_BLOCK, &pipe, &before, 8);
	if (head->kind == GR_SAID_MOVE)
		done = say(head, 0, 0);
	if (bytes)
		done = put(head, bytes, left);
	for (uint64_t n = 0; call && left && done >= 0 && part(call, n, &iov); n++) {
		done = put(head, &iov, left);
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

void gr_output_move(const struct gr_call *call, const struct gr_event *end)
{
	uint32_t output = call->nr == SYS_lseek ? gr_output_behind(call->arg[0]) : 0;
	if (!output || !(end->flags & GR_OUTPUT_PLACED) || !shows())
		return;
	struct gr_said head = {
		.kind = GR_SAID_MOVE, .output = output, .whence = call->arg[2], .place = call->arg[1], .result = end->result,
	};
	show(&head, NULL, NULL, 0);
}

void gr_output_bytes(uint32_t output, const void *bytes, uint64_t len)
{
	struct iovec iov = {(void *)bytes, len};
	struct gr_said head = {.kind = GR_SAID_NEXT, .output = output};
	if ((output == 1 || output == 2) && shows())
		show(&head, &iov, NULL, len);
}

void gr_output_echo(const struct gr_call *call)
{
	uint32_t output = gr_output_of(call);
	struct gr_event end;
	if (!output || !shows() || !gr_gate_peek(call->self, &end))
		return;
	int64_t wrote = gr_output_result(call, end.result);
	struct gr_said head = {.kind = GR_SAID_NEXT, .output = output};
	if (takes_place(call) && end.flags & GR_OUTPUT_PLACED) {
		head.kind = GR_SAID_PLACE;
		head.place = call->arg[3];
	}
	if (wrote > 0)
		show(&head, NULL, call, wrote);
}
