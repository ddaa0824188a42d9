// Recording calls that bring in or send out some bytes, or ask for a file, on the short way; see query.h.
// Runs in: application threads, on the engine's stack.
// May call: core, log.
// Owns: which calls these are.
//
// What others could see too early is brought in by way of the thread's room, as in memory/stage.c. INVARIANT(begun-is-ended): what a
// call that was made needs a frame for is done at the door, which finds its start in the log and its result in the thread (`begun`);
// nothing that happens in between takes another call for it.
#include <errno.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "../../core/copy.h"
#include "../../core/nolibc.h"
#include "../../core/raw.h"
#include "../../replay/cancel.h"
#include "../../signal/signal.h"
#include "../descriptor.h"
#include "../fd/refer.h"
#include "query.h"

#define MOST 0x40000     // bytes that a call has room for; a file's more seldom
#define MOST_FILE 0x1000 // need to be seen as a whole

static bool looks_at_file(long nr)
{
	return nr == SYS_newfstatat || nr == SYS_stat || nr == SYS_lstat;
}

bool gr_is_transfer(long nr)
{
	switch (nr) {
	case SYS_read:
	case SYS_pread64:
	case SYS_recvfrom:
	case SYS_epoll_wait:
	case SYS_write:
	case SYS_sendto:
	case SYS_writev:
	case SYS_sendmsg:
	case SYS_fstat:
	case SYS_close:
		return true;
	}
	// Of a path the profile may say something.
	return looks_at_file(nr) && gr_ctl->sys_action[nr] == GR_ACT_RECORD && !gr_ctl->rules[0] && !gr_kind_some(GR_CLASS_COUNT);
}

// Where a call's buffer is among its arguments; the bytes for which it has room where something is brought in, and those of them for
// each of the result, 0: all.
struct shape { unsigned at; uint64_t room; uint32_t each; };

// The arguments as gr_call_narrow() leaves them. False for a call that leads to more memory than that, or that a table must be asked about.
static inline __attribute__((always_inline)) bool is_simple(unsigned nr, uint64_t arg[6], struct shape *ret)
{
	*ret = (struct shape){1, 0, 1};
	switch (nr) {
	case SYS_close:
		return true;
	case SYS_newfstatat:
		arg[0] = (uint64_t)(int64_t)(int32_t)arg[0];
		ret->at = 2;
		// fallthrough
	case SYS_stat:
	case SYS_lstat:
	case SYS_fstat:
		ret->room = sizeof(struct stat);
		ret->each = 0;
		return arg[ret->at] && (nr == SYS_fstat || arg[ret->at - 1]);
	}
	if (!arg[1])
		return false;
	switch (nr) {
	case SYS_recvfrom:
		if (arg[4] || arg[5])
			return false;
		break;
	case SYS_sendto:
		arg[5] = (uint64_t)(int64_t)(int32_t)arg[5];
		return !arg[4] && arg[2];
	case SYS_epoll_wait:
		arg[2] = (uint64_t)(int64_t)(int32_t)arg[2];
		ret->each = 12; // struct epoll_event
		ret->room = arg[2] <= MOST ? arg[2] * ret->each : 0;
		return ret->room - 1 < MOST;
	case SYS_write:
		return arg[2];
	case SYS_writev:
	case SYS_sendmsg:
		return true;
	}
	ret->room = arg[2];
	return ret->room - 1 < MOST;
}

// Recorded whatever its contents, not the program's output, and none that could be mapped if it is written to.
static inline bool is_plain(uint64_t fd, const struct gr_sys *sys, uint64_t room)
{
	uint8_t entry = gr_fd_get(fd), cls = entry & GR_FD_CLASS;
	if (!(sys->flags & GR_SF_BY_FD) && sys->cls == GR_CLASS_file)
		return true; // by a path
	if (cls == GR_FD_NONE || entry & (GR_FD_OUT | GR_FD_ERR))
		return false;
	if (sys->flags & GR_SF_IRREVOCABLE)
		return entry & GR_FD_RECORDED && (cls == GR_CLASS_pipe || cls == GR_CLASS_net);
	if (room > MOST_FILE && cls != GR_CLASS_pipe && cls != GR_CLASS_net && cls != GR_CLASS_poll)
		return false;
	if (room >= GR_LEAST_REFERRED && cls == GR_CLASS_file && gr_fd_large((int)fd))
		return false;
	return entry & GR_FD_RECORDED || (sys->flags & GR_SF_BY_FD && gr_fd_rule(fd) == GR_ACT_RECORD);
}

// As gr_call_check() has it; false where the kernel will look further than that.
static inline __attribute__((always_inline)) bool check_of(unsigned nr, unsigned nargs, const uint64_t arg[6], uint32_t *ret)
{
	struct msghdr msg;
	uint8_t some[512]; // as much as gr_hash_memory() takes at once
	uint64_t hash = GR_HASH_SEED;
	unsigned pointers = nr == SYS_close ? 0 : nr == SYS_newfstatat ? 6 : nr == SYS_stat || nr == SYS_lstat ? 3 : nargs == 6 ? 18 : 2;
	for (unsigned i = 0; i < nargs; i++)
		hash = gr_hash_word(hash, pointers >> i & 1 ? arg[i] != 0 : arg[i]);
	switch (nr) {
	case SYS_write:
	case SYS_sendto:
		hash = arg[2] <= sizeof some ? gr_hash(hash, some, gr_peek(some, arg[1], arg[2])) : gr_hash_memory(hash, arg[1], arg[2]);
		break;
	case SYS_writev:
		hash = gr_hash_vector(hash, arg[1], arg[2]);
		break;
	case SYS_sendmsg:
		if (gr_peek(&msg, arg[1], sizeof msg) != sizeof msg || msg.msg_controllen)
			return false;
		hash = gr_hash_vector(hash, (uint64_t)msg.msg_iov, msg.msg_iovlen);
		break;
	case SYS_newfstatat:
		hash = gr_hash_path(hash, arg[1]);
		break;
	case SYS_stat:
	case SYS_lstat:
		hash = gr_hash_path(hash, arg[0]);
	}
	*ret = (uint32_t)(hash ^ hash >> 32);
	return true;
}

// A thread of several may be cancelled, or asked about by one that wants to: what gr_cancel_open() looks at.
static void stand(struct gr_thread *self, const struct gr_quick_saved *saved)
{
	self->pub.ret_pc = saved->tail[-1];
	__atomic_store_n(&self->pub.state, GR_T_ENGINE, __ATOMIC_RELEASE);
}

// Made for each number that is used often, so that nothing is asked about it here.
static inline __attribute__((always_inline)) struct gr_quick_end transfer(const struct gr_quick_saved *saved, unsigned nr, struct gr_thread *self)
{
	static const uint32_t none;
	const struct gr_quick_end declined = {nr, 0};
	const struct gr_sys *sys = &gr_sys_table[nr];
	bool alone = __atomic_load_n(&gr_ctl->threads, __ATOMIC_RELAXED) == 1, waits = sys->flags & GR_SF_BLOCKS;
	uint64_t a[6] = {saved->rdi, saved->rsi, saved->rdx, saved->r10, saved->r8, saved->r9}, buffer = 0;
	struct shape shape;
	uint32_t check;
	if (self->ticking || !is_simple(nr, a, &shape) || !is_plain(a[0], sys, shape.room) || !check_of(nr, sys->nargs, a, &check))
		return declined;
	uint64_t room = shape.room, program = a[shape.at];
	if (room && waits && !alone && !(buffer = gr_stage_quick(self, program, room)))
		return declined;
	if (!gr_log_begun(self, nr, check))
		return declined;
	if (buffer)
		a[shape.at] = buffer;
	if (!alone)
		stand(self, saved);
	bool cancels = !alone && gr_cancel_open(self);
	long result = waits || cancels ? gr_wait6(nr, a[0], a[1], a[2], a[3], a[4], a[5], &self->held, cancels ? &self->cancel : &none)
				       : gr_raw6(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
	self->begun_result = result;
	if (result == GR_RESTART || result == -EINTR || result == -EFAULT) {
		self->begun = GR_BEGUN;
		return declined;
	}
	uint64_t some = shape.each ? shape.each * (uint64_t)result : room; // MSG_TRUNC: perhaps more than there is room for
	struct gr_piece brought = {a[shape.at], (uint32_t)(some < room ? some : room), 0};
	self->operation = NULL;
	gr_log_ended(self, nr, result, room && result >= 0 ? &brought : NULL);
	if (buffer && result > 0)
		gr_copy((void *)program, (const void *)buffer, brought.len);
	if (nr == SYS_close)
		gr_fd_set(a[0], GR_FD_NONE); // also when it fails: Linux releases the number first
	if (!gr_signal_none(self)) {
		self->begun = GR_BEGUN_ENDED;
		return declined;
	}
	if (!alone)
		__atomic_store_n(&self->pub.state, GR_T_RUNNING, __ATOMIC_RELEASE);
	return (struct gr_quick_end){result, 1};
}

struct gr_quick_end gr_transfer_quick(const struct gr_quick_saved *saved, unsigned nr, struct gr_thread *self)
{
	switch (nr) {
	case SYS_read:
		return transfer(saved, SYS_read, self);
	case SYS_write:
		return transfer(saved, SYS_write, self);
	case SYS_recvfrom:
		return transfer(saved, SYS_recvfrom, self);
	case SYS_sendto:
		return transfer(saved, SYS_sendto, self);
	case SYS_epoll_wait:
		return transfer(saved, SYS_epoll_wait, self);
	}
	return transfer(saved, nr, self);
}
