// Walking the effects of a call: what to hash, what to log, what to put back.
// Runs in: application threads, on the engine's stack.
// May call: core.
// Owns: nothing.
#include <errno.h>
#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "../core/copy.h"
#include "../core/nolibc.h"
#include "../core/page.h"
#include "../core/panic.h"
#include "../core/raw.h"
#include "call.h"
#include "descriptor.h"
#include "memory/memory.h"
#include "process/names.h"

#define FX(call) ((call)->ioctl.kind ? &(call)->ioctl : (call)->sys->fx)
#define FX_COUNT(call) ((call)->ioctl.kind ? 1 : GR_FX_MAX)

struct gr_piece *gr_call_room(struct gr_thread *self)
{
	uint64_t room = GR_ROOM_ADDR + (uint64_t)self->block * GR_ROOM_SIZE;
	if (!self->room) {
		long ret = GR_RAW(SYS_mmap, room, GR_ROOM_PIECES, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
		if (GR_IS_ERR(ret))
			gr_panic(self, GR_PANIC_REFUSED, "a program without memory for the engine (error %d)", -ret, 0);
		self->room = GR_ROOM_PIECES;
	}
	return (struct gr_piece *)room;
}

static uint64_t arg_of(const struct gr_call *call, unsigned position)
{
	return call->arg[position - 1];
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

// What depends on a version or on a flag.
static uint64_t own_length(const struct gr_call *call)
{
	uint32_t version = 0;
	if (call->nr == SYS_name_to_handle_at)
		return arg_of(call, 5) & 1 ? 8 : 4; // AT_HANDLE_MNT_ID_UNIQUE
	gr_peek(&version, arg_of(call, 1), sizeof version); // capget, capset
	return version == _LINUX_CAPABILITY_VERSION_1 ? sizeof(struct __user_cap_data_struct)
						      : 2 * sizeof(struct __user_cap_data_struct);
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
		return (fx->len_arg ? least(result, arg_of(call, fx->len_arg)) : result) + fx->scale;
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
	case GR_LEN_FLEX: {
		uint32_t items = 0;
		gr_peek(&items, arg_of(call, fx->arg) + fx->len_arg, sizeof items);
		return (fx->scale & 0xffff) + (uint64_t)(fx->scale >> 16) * items;
	}
	case GR_LEN_WHEN:
		return result ? fx->scale : 0;
	case GR_LEN_OWN:
		return own_length(call);
	}
	return 0;
}

uint64_t gr_call_capacity(const struct gr_call *call, int i)
{
	const struct gr_fx *fx = &FX(call)[i];
	switch ((enum gr_len_kind)fx->len_kind) {
	case GR_LEN_RET:
		return fx->len_arg ? arg_of(call, fx->len_arg) * fx->scale : 0;
	case GR_LEN_RET_PLUS:
		return fx->len_arg ? arg_of(call, fx->len_arg) + fx->scale : 0;
	case GR_LEN_AT:
		return call->before[i];
	case GR_LEN_SELF:
		return call->before[i] + fx->scale;
	default:
		return length(call, fx, i);
	}
}

void gr_call_before(struct gr_call *call)
{
	for (int i = 0; i < FX_COUNT(call) && FX(call)[i].kind; i++) {
		const struct gr_fx *fx = &FX(call)[i];
		uint64_t at = fx->len_kind == GR_LEN_AT ? arg_of(call, fx->len_arg) : fx->len_kind == GR_LEN_SELF ? arg_of(call, fx->arg) : 0;
		if (at) // a fault takes microseconds
			gr_peek(&call->before[i], at, sizeof call->before[i]);
		else if (fx->kind == GR_FX_BEHIND)
			gr_peek(&call->before[i], arg_of(call, fx->arg) + (fx->scale >> 16), sizeof call->before[i]);
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

uint64_t gr_hash_memory(uint64_t hash, uint64_t addr, uint64_t len)
{
	return hash_memory(hash, addr, len, false);
}

uint64_t gr_hash_vector(uint64_t hash, uint64_t vector, uint64_t count)
{
	for (uint64_t i = 0; i < least(count, 64); i++) {
		struct iovec iov;
		if (gr_peek(&iov, vector + i * sizeof iov, sizeof iov) != sizeof iov)
			break;
		hash = hash_memory(hash, (uint64_t)iov.iov_base, iov.iov_len, false);
	}
	return hash;
}

uint64_t gr_hash_path(uint64_t hash, uint64_t addr)
{
	return hash_memory(hash, addr, HASHED, true);
}

// The C library names another thread by a path with the id from its descriptor.
#define TASK "/proc/self/task/"
#define TASK_PATH 64

static uint64_t hash_path(uint64_t hash, uint64_t addr, struct gr_meaning *which)
{
	char path[TASK_PATH], told[TASK_PATH + 16];
	size_t n = gr_mode == GR_MODE_REPLAY ? gr_peek(path, addr, sizeof path) : 0, i = sizeof TASK - 1;
	bool named = n > i && !memcmp(path, TASK, i);
	uint32_t id = 0;
	for (; named && i < n && path[i] >= '0' && path[i] <= '9'; i++)
		id = id * 10 + (path[i] - '0');
	size_t end = i;
	while (named && end < n && path[end])
		end++;
	if (!named || end == n)
		return hash_memory(hash, addr, HASHED, true);
	gr_format(told, sizeof told, TASK "%u%s", gr_recorded_id(id, which), (uint64_t)(path + i));
	// As hash_memory() takes it: in two parts where a page ends between.
	size_t length = gr_strlen(told), first = 4096 - (addr & 4095);
	if (length < first)
		return gr_hash(hash, told, length);
	return gr_hash(gr_hash(hash, told, first), told + first, length - first);
}

// What a timer does; of the rest of the structure the kernel reads nothing.
static uint64_t hash_timer(uint64_t hash, uint64_t addr, struct gr_meaning *which)
{
	struct { uint64_t value; int32_t signal, notify; uint32_t thread; } event = {0};
	gr_peek(&event, addr, sizeof event);
	hash = gr_hash_word(hash, (uint64_t)event.signal << 32 | (uint32_t)event.notify);
	return event.notify & 4 ? gr_hash_word(hash, gr_recorded_id(event.thread, which)) : hash; // SIGEV_THREAD_ID
}

#define READS 0x01 // of memory that its arguments say where; the other bits are those arguments, from 1
#define KNOWN 0x80

static uint8_t traits_of(const struct gr_call *call)
{
	uint8_t pointers = KNOWN;
	for (int i = 0; i < FX_COUNT(call) && FX(call)[i].kind; i++) {
		const struct gr_fx *fx = &FX(call)[i];
		switch ((enum gr_fx_kind)fx->kind) {
		case GR_FX_NONE:
		case GR_FX_FD:
		case GR_FX_MAKES:
		case GR_FX_CLOSES:
		case GR_FX_DUPS:
		case GR_FX_DUPS_TO:
		case GR_FX_MAPS:
		case GR_FX_REFUSED:
			continue;
		case GR_FX_OUT:
		case GR_FX_OUT_ANY:
			pointers |= 1u << fx->arg;
			continue;
		default:
			pointers |= 1u << fx->arg | READS;
		}
	}
	return pointers;
}

// The same for every call of a number, but for those that are many calls.
static uint8_t traits(const struct gr_call *call)
{
	static uint8_t known[GR_SYS_MAX];
	uint8_t found = call->ioctl.kind ? 0 : __atomic_load_n(&known[call->nr], __ATOMIC_RELAXED);
	if (found)
		return found;
	found = traits_of(call);
	if (!call->ioctl.kind)
		__atomic_store_n(&known[call->nr], found, __ATOMIC_RELAXED);
	return found;
}

static uint32_t check_of(struct gr_call *call, struct gr_meaning *which)
{
	uint64_t hash = GR_HASH_SEED;
	unsigned pointers = traits(call);
	for (unsigned i = 1; i <= call->sys->nargs; i++)
		hash = gr_hash_word(hash, pointers & 1u << i ? arg_of(call, i) != 0 : gr_recorded_argument(call, i, which));
	for (int i = 0; pointers & READS && i < FX_COUNT(call) && FX(call)[i].kind; i++) {
		const struct gr_fx *fx = &FX(call)[i];
		if (!fx->kind || !fx->arg || !arg_of(call, fx->arg))
			continue;
		if (call->nr == SYS_timer_create && fx->kind == GR_FX_IN)
			hash = hash_timer(hash, arg_of(call, fx->arg), which);
		else if (fx->kind == GR_FX_STR)
			hash = hash_path(hash, arg_of(call, fx->arg), which);
		else if (fx->kind == GR_FX_IN)
			hash = hash_memory(hash, arg_of(call, fx->arg), length(call, fx, i), false);
		else if (fx->kind == GR_FX_IOV_IN)
			hash = gr_hash_vector(hash, arg_of(call, fx->arg), arg_of(call, fx->len_arg));
		else if (fx->kind == GR_FX_MSG_IN) {
			struct msghdr msg;
			if (gr_peek(&msg, arg_of(call, fx->arg), sizeof msg) == sizeof msg)
				hash = gr_hash_vector(hash, (uint64_t)msg.msg_iov, msg.msg_iovlen);
		}
	}
	return (uint32_t)(hash ^ hash >> 32);
}

uint32_t gr_call_check(struct gr_call *call)
{
	return check_of(call, &(struct gr_meaning){0});
}

bool gr_call_checks(struct gr_call *call, uint32_t check)
{
	struct gr_meaning which = {0};
	while (check_of(call, &which) != check) {
		if (!which.found)
			return false;
		which = (struct gr_meaning){which.nth + 1, false};
	}
	return true;
}

// ---------------------------------------------------------------- outputs
struct walk {
	struct gr_piece *pieces;
	int count;
	bool torn;  // the call failed, with something stored perhaps
	bool empty; // then: in buffers of the engine that had nothing of the program's nobody can tell what
};

static void add_some(struct walk *walk, uint64_t addr, uint64_t len, bool loose)
{
	if (walk->count < 0 || !addr)
		return; // a length of 0 stays: on replay it may not be known yet
	if (walk->count == GR_CALL_PIECES)
		walk->count = -1;
	else
		walk->pieces[walk->count++] = (struct gr_piece){addr, (uint32_t)len, loose};
}

static void add(struct walk *walk, uint64_t addr, uint64_t len)
{
	add_some(walk, addr, len, false);
}

// A call that fails, or that stores less than its length says (nanosleep that was not interrupted stores nothing), may
// have been given memory that is not there.
static uint64_t readable(uint64_t addr, uint64_t len)
{
	char byte;
	uint64_t n = 0;
	while (n < len && gr_peek(&byte, addr + n, 1) == 1)
		n = least(len, ((addr + n) | 4095) + 1 - addr);
	return n;
}

static void add_filled(struct walk *walk, uint64_t addr, uint64_t len)
{
	add_some(walk, addr, !walk->torn ? len : walk->empty ? 0 : readable(addr, len), walk->torn);
}

static void add_vector(struct walk *walk, uint64_t vector, uint64_t count, uint64_t filled)
{
	struct iovec iov;
	for (uint64_t i = 0; filled && i < count && gr_peek(&iov, vector + i * sizeof iov, sizeof iov) == sizeof iov; i++) {
		uint64_t n = least(filled, iov.iov_len);
		add_filled(walk, (uint64_t)iov.iov_base, n);
		filled -= n;
	}
}

static void add_message(struct walk *walk, uint64_t addr, uint64_t filled)
{
	struct msghdr msg;
	if (gr_peek(&msg, addr, sizeof msg) != sizeof msg)
		return;
	add_some(walk, addr, sizeof msg, walk->torn); // first: it holds the lengths of what follows
	add_filled(walk, (uint64_t)msg.msg_name, msg.msg_namelen);
	add_filled(walk, (uint64_t)msg.msg_control, msg.msg_controllen);
	add_vector(walk, (uint64_t)msg.msg_iov, msg.msg_iovlen, filled);
}

// Is that how much the kernel stored, and not only the most that it may have been?
static bool is_exact(const struct gr_fx *fx)
{
	switch ((enum gr_len_kind)fx->len_kind) {
	case GR_LEN_ARG:
	case GR_LEN_ARG_PLUS:
	case GR_LEN_SELF:
	case GR_LEN_FDSET: // for as many as the process may have at most
	case GR_LEN_FLEX:
		return false;
	default:
		return true;
	}
}

#define TORN 0x20000 // bytes: who fails with EFAULT has stored no more than a datagram

int gr_call_outputs(const struct gr_call *call, struct gr_piece pieces[GR_CALL_PIECES])
{
	bool failed = call->result < 0 && call->result >= -4095, torn = call->result == -EFAULT;
	struct walk walk = {pieces, 0, torn, torn && call->staged};
	for (int i = 0; i < FX_COUNT(call) && FX(call)[i].kind; i++) {
		const struct gr_fx *fx = &FX(call)[i];
		if (!fx->kind || !fx->arg || (failed && !torn && fx->kind != GR_FX_OUT_ANY))
			continue;
		uint64_t addr = arg_of(call, fx->arg);
		if (!addr)
			continue;
		switch ((enum gr_fx_kind)fx->kind) {
		case GR_FX_OUT:
		case GR_FX_OUT_ANY:
		case GR_FX_INOUT: {
			// A pointer that the kernel has not used may lead anywhere. Of what was surely stored nobody needs to ask.
			bool unsure = failed || fx->kind != GR_FX_OUT || !is_exact(fx);
			uint64_t n = torn ? least(gr_call_capacity(call, i), TORN) : length(call, fx, i);
			bool empty = walk.empty && (fx->len_kind == GR_LEN_RET || fx->len_kind == GR_LEN_RET_PLUS);
			add_some(&walk, addr, empty ? 0 : unsure ? readable(addr, n) : n, unsure);
			break;
		}
		case GR_FX_IOV_OUT:
			add_vector(&walk, addr, arg_of(call, fx->len_arg), torn ? TORN : (uint64_t)call->result);
			break;
		case GR_FX_MSG_OUT:
			add_message(&walk, addr, torn ? TORN : (uint64_t)call->result);
			break;
		case GR_FX_MMSG_OUT:
			for (long m = 0; m < (torn ? 1 : call->result); m++) {
				struct mmsghdr *mmsg = (struct mmsghdr *)addr + m;
				if (!torn)
					add(&walk, (uint64_t)&mmsg->msg_len, sizeof mmsg->msg_len);
				add_message(&walk, (uint64_t)&mmsg->msg_hdr, torn ? TORN : mmsg->msg_len);
			}
			break;
		case GR_FX_BEHIND: {
			uint64_t pointer = 0;
			uint32_t after = 0;
			add_some(&walk, addr, readable(addr, fx->scale & 0xffff), true);
			gr_peek(&pointer, addr + fx->len_arg, sizeof pointer);
			gr_peek(&after, addr + (fx->scale >> 16), sizeof after);
			after = least(after, call->before[i]);
			add_some(&walk, pointer, readable(pointer, after), true);
			break;
		}
		case GR_FX_MMSG_IN:
			for (long m = 0; m < call->result; m++)
				add(&walk, (uint64_t)&((struct mmsghdr *)addr + m)->msg_len, sizeof(uint32_t));
			break;
		default:
			break;
		}
	}
	return walk.count;
}

// What a program may rely on of a file that it asks about: its kind, and how long it is. Times are others when it was only
// touched, and directories change all the time.
static uint32_t file_facts(const struct gr_call *call)
{
	struct stat st;
	struct statx stx;
	uint64_t mode = 0, size = 0;
	switch (call->nr) {
	case SYS_stat:
	case SYS_fstat:
	case SYS_lstat:
	case SYS_newfstatat: {
		uint64_t at = call->arg[call->nr == SYS_newfstatat ? 2 : 1];
		if (gr_peek(&st, at, sizeof st) == sizeof st)
			mode = st.st_mode, size = st.st_size;
		break;
	}
	case SYS_statx:
		if (gr_peek(&stx, call->arg[4], sizeof stx) == sizeof stx)
			mode = stx.stx_mode, size = stx.stx_size;
		break;
	default:
		return 0;
	}
	uint64_t hash = gr_hash_word(GR_HASH_SEED, mode & S_IFMT);
	hash = S_ISREG(mode) ? gr_hash_word(hash, size) : hash;
	hash ^= hash >> 32;
	return (uint32_t)hash | 1;
}

uint32_t gr_call_contents(const struct gr_call *call)
{
	uint64_t hash = GR_HASH_SEED;
	if (call->result == 0)
		return file_facts(call);
	if (call->result <= 0 || call->sys->cls != GR_CLASS_file)
		return 0;
	for (int i = 0; i < FX_COUNT(call); i++) {
		const struct gr_fx *fx = &FX(call)[i];
		if (fx->kind == GR_FX_FD && call->sys->flags & GR_SF_BY_FD &&
		    (gr_fd_get((int)arg_of(call, fx->arg)) & GR_FD_CLASS) != GR_CLASS_file)
			return 0; // a device has no contents to be compared
		if (fx->kind == GR_FX_OUT && fx->len_kind == GR_LEN_RET) {
			hash = gr_hash(hash, (const void *)arg_of(call, fx->arg), length(call, fx, i));
		} else if (fx->kind == GR_FX_IOV_OUT) {
			const struct iovec *iov = (const struct iovec *)arg_of(call, fx->arg);
			for (uint64_t left = call->result; left; iov++) {
				uint64_t n = least(left, iov->iov_len);
				hash = gr_hash(hash, iov->iov_base, n);
				left -= n;
			}
		} else {
			continue;
		}
		hash ^= hash >> 32;
		return (uint32_t)hash | 1;
	}
	return 0;
}

// Bytes that are already there are not stored again: where the kernel could not write (a constant timeout), nobody can.
static void put_loosely(uint8_t *to, const uint8_t *from, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (to[i] != from[i])
			to[i] = from[i];
}

// Lengths that lie in the outputs themselves (socklen_t, message headers) are there only once their piece is back, so
// the walk is made again behind each piece that was put in; until then it gives the most that they can be.
bool gr_call_inject(const struct gr_call *call, const uint8_t *data, uint32_t len)
{
	struct gr_piece *pieces = gr_call_room(call->self);
	const uint8_t *end = data + len;
	for (int i = 0; data < end; i++) {
		uint32_t n;
		if (end - data < (long)sizeof n)
			return false;
		memcpy(&n, data, sizeof n);
		data += sizeof n;
		if (n > end - data || i >= gr_call_outputs(call, pieces) || n > pieces[i].len)
			return false;
		if (pieces[i].loose)
			put_loosely((uint8_t *)pieces[i].addr, data, n);
		else
			memcpy((void *)pieces[i].addr, data, n);
		data += n;
	}
	return true;
}

void gr_call_show_outputs(const struct gr_call *call)
{
	uint8_t some[256];
	struct gr_piece *pieces = gr_call_room(call->self);
	int count = gr_call_outputs(call, pieces);
	for (int i = 0; i < count; i++)
		for (uint32_t at = 0, n; at < pieces[i].len; at += n) {
			n = pieces[i].len - at < sizeof some ? pieces[i].len - at : sizeof some;
			gr_poke(pieces[i].addr + at, some, gr_peek(some, pieces[i].addr + at, n));
		}
}
