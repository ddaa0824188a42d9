// Walking the effects of a call: what to hash, what to log, what to put back.
// Runs in: application threads, on the engine's stack.
// May call: core.
// Owns: nothing.
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "../core/nolibc.h"
#include "../core/page.h"
#include "call.h"

#define FX(call) ((call)->ioctl.kind ? &(call)->ioctl : (call)->sys->fx)
#define FX_COUNT(call) ((call)->ioctl.kind ? 1 : GR_FX_MAX)

static uint64_t arg_of(const struct gr_call *call, unsigned position)
{
	return call->arg[position - 1];
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t length(const struct gr_call *call, const struct gr_fx *fx, unsigned i)
{
	uint64_t result = call->result > 0 ? call->result : 0;
	switch ((enum gr_len_kind)fx->len_kind) {
	case GR_LEN_NONE:
		return 0;
	case GR_LEN_BYTES:
		return fx->scale;
	case GR_LEN_ARG:
		return arg_of(call, fx->len_arg) * fx->scale;
	case GR_LEN_ARG_PLUS:
		return arg_of(call, fx->len_arg) + fx->scale;
	case GR_LEN_RET:
		return (fx->len_arg ? least(result, arg_of(call, fx->len_arg)) : result) * fx->scale;
	case GR_LEN_RET_PLUS:
		return result + fx->scale;
	case GR_LEN_AT: {
		uint32_t after = 0;
		gr_peek(&after, arg_of(call, fx->len_arg), sizeof after);
		return least(after, call->before[i]);
	}
	case GR_LEN_SELF: {
		uint32_t after = 0;
		gr_peek(&after, arg_of(call, fx->arg), sizeof after);
		return least(after, call->before[i]) + fx->scale;
	}
	case GR_LEN_FDSET:
		return ((uint32_t)arg_of(call, fx->len_arg) + 63) / 64 * 8;
	case GR_LEN_PAGES:
		return (arg_of(call, fx->len_arg) + 4095) / 4096;
	case GR_LEN_NODES:
		return arg_of(call, fx->len_arg) ? (arg_of(call, fx->len_arg) + 62) / 64 * 8 : 0;
	}
	return 0;
}

void gr_call_before(struct gr_call *call)
{
	for (int i = 0; i < FX_COUNT(call); i++) {
		const struct gr_fx *fx = &FX(call)[i];
		if (fx->len_kind == GR_LEN_AT || fx->len_kind == GR_LEN_SELF)
			gr_peek(&call->before[i], arg_of(call, fx->len_kind == GR_LEN_AT ? fx->len_arg : fx->arg),
				sizeof call->before[i]);
	}
}

// ---------------------------------------------------------------- inputs
#define HASHED 4096 // bytes of one input that are looked at

static uint64_t hash_memory(uint64_t hash, uint64_t addr, uint64_t len, bool text)
{
	unsigned char buffer[512];
	for (uint64_t done = 0; done < least(len, HASHED);) {
		size_t want = least(least(len, HASHED) - done, sizeof buffer);
		if (text) // do not run into the page behind the string
			want = least(want, 4096 - ((addr + done) & 4095));
		size_t got = gr_peek(buffer, addr + done, want);
		if (text)
			for (size_t i = 0; i < got; i++)
				if (!buffer[i])
					return gr_hash(hash, buffer, i);
		hash = gr_hash(hash, buffer, got);
		if (got < want)
			break;
		done += got;
	}
	return hash;
}

static uint64_t hash_vector(uint64_t hash, uint64_t vector, uint64_t count)
{
	for (uint64_t i = 0; i < least(count, 64); i++) {
		struct iovec iov;
		if (gr_peek(&iov, vector + i * sizeof iov, sizeof iov) != sizeof iov)
			break;
		hash = hash_memory(hash, (uint64_t)iov.iov_base, iov.iov_len, false);
	}
	return hash;
}

// The library passes on ids of threads that it finds in their descriptors, where a replay has other ones.
static uint64_t recorded_id(const struct gr_call *call, unsigned position)
{
	uint64_t value = arg_of(call, position), id = value;
	if (gr_mode != GR_MODE_REPLAY)
		return value;
	switch (call->nr) {
	case SYS_tgkill:
		if (position != 2)
			return value;
		break;
	case SYS_clock_gettime:
	case SYS_clock_getres:
		if (position != 1 || (int)value >= 0)
			return value;
		id = ~(int)value >> 3; // a thread's processor time
		break;
	case SYS_tkill:
	case SYS_sched_getaffinity:
	case SYS_sched_setaffinity:
	case SYS_sched_getscheduler:
	case SYS_sched_setscheduler:
	case SYS_sched_getparam:
	case SYS_sched_setparam:
	case SYS_sched_getattr:
	case SYS_sched_setattr:
		if (position != 1)
			return value;
		break;
	default:
		return value;
	}
	for (uint32_t i = 0; i < GR_LIVE_THREADS; i++) {
		const struct gr_thread *t = gr_thread_block(i);
		if (t->pub.state != GR_T_FREE && t->pub.state != GR_T_EXITED && t->pub.tid == (uint32_t)id)
			return id == value ? t->pub.recorded_tid
					   : (value >> 32 << 32) | (uint32_t)(~t->pub.recorded_tid << 3 | (value & 7));
	}
	return value;
}

uint32_t gr_call_check(struct gr_call *call)
{
	uint64_t hash = GR_HASH_SEED;
	unsigned pointers = 0;
	for (int i = 0; i < FX_COUNT(call); i++) {
		const struct gr_fx *fx = &FX(call)[i];
		switch ((enum gr_fx_kind)fx->kind) {
		case GR_FX_NONE:
		case GR_FX_FD:
		case GR_FX_MAKES:
		case GR_FX_CLOSES:
		case GR_FX_DUPS:
		case GR_FX_DUPS_TO:
		case GR_FX_MAPS:
			continue;
		default:
			pointers |= 1u << fx->arg;
		}
	}
	for (unsigned i = 1; i <= call->sys->nargs; i++)
		hash = gr_hash_word(hash, pointers & 1u << i ? arg_of(call, i) != 0 : recorded_id(call, i));
	for (int i = 0; i < FX_COUNT(call); i++) {
		const struct gr_fx *fx = &FX(call)[i];
		if (!fx->kind || !fx->arg || !arg_of(call, fx->arg))
			continue;
		if (fx->kind == GR_FX_STR)
			hash = hash_memory(hash, arg_of(call, fx->arg), HASHED, true);
		else if (fx->kind == GR_FX_IN)
			hash = hash_memory(hash, arg_of(call, fx->arg), length(call, fx, i), false);
		else if (fx->kind == GR_FX_IOV_IN)
			hash = hash_vector(hash, arg_of(call, fx->arg), arg_of(call, fx->len_arg));
		else if (fx->kind == GR_FX_MSG_IN) {
			struct msghdr msg;
			if (gr_peek(&msg, arg_of(call, fx->arg), sizeof msg) == sizeof msg)
				hash = hash_vector(hash, (uint64_t)msg.msg_iov, msg.msg_iovlen);
		}
	}
	return (uint32_t)(hash ^ hash >> 32);
}

// ---------------------------------------------------------------- outputs
struct walk { struct gr_piece *pieces; int count; };

static void add(struct walk *walk, uint64_t addr, uint64_t len)
{
	if (walk->count < 0 || !addr)
		return; // a length of 0 stays: on replay it may not be known yet
	if (walk->count == GR_CALL_PIECES)
		walk->count = -1;
	else
		walk->pieces[walk->count++] = (struct gr_piece){addr, (uint32_t)len};
}

static void add_vector(struct walk *walk, const struct iovec *iov, uint64_t count, uint64_t filled)
{
	for (; filled && count; count--, iov++) {
		uint64_t n = least(filled, iov->iov_len);
		add(walk, (uint64_t)iov->iov_base, n);
		filled -= n;
	}
}

static void add_message(struct walk *walk, uint64_t addr, uint64_t filled)
{
	struct msghdr *msg = (struct msghdr *)addr;
	add(walk, addr, sizeof *msg); // first: it holds the lengths of what follows
	add(walk, (uint64_t)msg->msg_name, msg->msg_namelen);
	add(walk, (uint64_t)msg->msg_control, msg->msg_controllen);
	add_vector(walk, msg->msg_iov, msg->msg_iovlen, filled);
}

int gr_call_outputs(const struct gr_call *call, struct gr_piece pieces[GR_CALL_PIECES])
{
	struct walk walk = {pieces, 0};
	bool failed = call->result < 0 && call->result >= -4095;
	for (int i = 0; i < FX_COUNT(call); i++) {
		const struct gr_fx *fx = &FX(call)[i];
		if (!fx->kind || !fx->arg || (failed && fx->kind != GR_FX_OUT_ANY))
			continue;
		uint64_t addr = arg_of(call, fx->arg);
		if (!addr)
			continue;
		switch ((enum gr_fx_kind)fx->kind) {
		case GR_FX_OUT:
		case GR_FX_OUT_ANY:
		case GR_FX_INOUT:
			add(&walk, addr, length(call, fx, i));
			break;
		case GR_FX_IOV_OUT:
			add_vector(&walk, (struct iovec *)addr, arg_of(call, fx->len_arg), call->result);
			break;
		case GR_FX_MSG_OUT:
			add_message(&walk, addr, call->result);
			break;
		case GR_FX_MMSG_OUT:
			for (long m = 0; m < call->result; m++) {
				struct mmsghdr *mmsg = (struct mmsghdr *)addr + m;
				add(&walk, (uint64_t)&mmsg->msg_len, sizeof mmsg->msg_len);
				add_message(&walk, (uint64_t)&mmsg->msg_hdr, mmsg->msg_len);
			}
			break;
		default:
			break;
		}
	}
	return walk.count;
}

// Lengths that lie in the outputs themselves (socklen_t, message headers) are there only once their piece is back, so
// the walk is made again behind each piece that was put in; until then it gives the most that they can be.
bool gr_call_inject(const struct gr_call *call, const uint8_t *data, uint32_t len)
{
	struct gr_piece pieces[GR_CALL_PIECES];
	const uint8_t *end = data + len;
	for (int i = 0; data < end; i++) {
		uint32_t n;
		if (end - data < (long)sizeof n)
			return false;
		memcpy(&n, data, sizeof n);
		data += sizeof n;
		if (n > end - data || i >= gr_call_outputs(call, pieces) || n > pieces[i].len)
			return false;
		memcpy((void *)pieces[i].addr, data, n);
		data += n;
	}
	return true;
}
