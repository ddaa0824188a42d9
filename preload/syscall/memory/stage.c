// Calls on engine buffers: what the kernel stores reaches the program at the tick of the call's end, and not before.
// Runs in: application threads while recording, on the engine's stack.
// May call: core.
// Owns: the buffers in a thread's room.
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "../../core/copy.h"
#include "../../core/nolibc.h"
#include "../../core/page.h"
#include "../../core/raw.h"
#include "memory.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define KEEP 0x100000    // a room that was larger for one call gives its pages back
#define CHECKED 0x100000 // bytes of one buffer whose presence is checked
#define VECTOR_MAX 1024

struct buffer { uint64_t program, stage, len; };

_Static_assert(GR_CALL_PIECES * sizeof(struct gr_piece) <= GR_ROOM_BUFFERS, "room layout");
#define BUFFERS_MAX ((GR_ROOM_PIECES - GR_ROOM_BUFFERS) / sizeof(struct buffer))

static uint64_t room_of(const struct gr_thread *self)
{
	return GR_ROOM_ADDR + (uint64_t)self->block * GR_ROOM_SIZE;
}

uint64_t gr_room(struct gr_thread *self, uint64_t need)
{
	gr_call_room(self);
	if (need > GR_ROOM_SIZE - GR_ROOM_PIECES)
		return 0;
	uint64_t total = GR_ROOM_PIECES + ((need + 0xffff) & ~0xffffULL);
	if (total > self->room) {
		long ret = GR_RAW(SYS_mmap, room_of(self) + self->room, total - self->room, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
		if (GR_IS_ERR(ret))
			return 0;
		self->room = total;
	}
	return room_of(self) + GR_ROOM_PIECES;
}

static struct buffer *buffers(const struct gr_stage *st)
{
	return (struct buffer *)(room_of(st->real.self) + GR_ROOM_BUFFERS);
}

// Would the kernel get an error for this buffer? Then it shall say so itself.
static bool writable(uint64_t addr, uint64_t len)
{
	static char known __attribute__((aligned(4096)));
	uint64_t first = addr & ~4095ULL, end = addr + (len < CHECKED ? len : CHECKED);
	if (__atomic_load_n(&gr_copy_guarded, __ATOMIC_RELAXED))
		return gr_storable(addr, end); // asking the kernel takes a fifth of a server's time
	return GR_RAW(SYS_madvise, first, ((end + 4095) & ~4095ULL) - first, MADV_POPULATE_WRITE) == 0 ||
	       GR_RAW(SYS_madvise, &known, 4096, MADV_POPULATE_WRITE) != 0; // before Linux 5.14 nobody can say
}

// ---------------------------------------------------------------- what is known to be writable
// INVARIANT(storable-until-changed): what could be written can be, until a call of this process changes memory or the length of a
// file. A program that makes such a call while it waits for bytes in that memory has a race of its own.
static uint64_t changes = 1;

void gr_storable_changed(void)
{
	__atomic_fetch_add(&changes, 1, __ATOMIC_SEQ_CST);
}

static bool known_writable(struct gr_thread *self, uint64_t addr, uint64_t len)
{
	uint64_t now = __atomic_load_n(&changes, __ATOMIC_SEQ_CST);
	__auto_type known = &self->storables.at[(addr >> 4 ^ addr >> 12) % GR_STORABLES];
	if (known->then == now && addr >= known->from && addr + len <= known->to)
		return true;
	if (!writable(addr, len))
		return false;
	known->from = addr;
	known->to = addr + (len < CHECKED ? len : CHECKED);
	known->then = now;
	return true;
}

uint64_t gr_stage_quick(struct gr_thread *self, uint64_t program, uint64_t len)
{
	bool fits = self->room >= GR_ROOM_PIECES + len && __atomic_load_n(&gr_copy_guarded, __ATOMIC_RELAXED);
	return fits && known_writable(self, program, len) ? room_of(self) + GR_ROOM_PIECES : 0;
}

static bool is_there(uint64_t addr, uint64_t len)
{
	char byte;
	return !len || (gr_peek(&byte, addr, 1) == 1 && gr_peek(&byte, addr + len - 1, 1) == 1);
}

// An engine buffer for `len` bytes of the program; with `fill` it begins with the program's bytes.
static uint64_t stage(struct gr_stage *st, uint64_t program, uint64_t len, bool fill, bool out)
{
	if (!program || !len || st->failed)
		return program;
	uint64_t at = (st->used + 15) & ~15ULL;
	uint64_t base = len < GR_ROOM_SIZE ? gr_room(st->real.self, at + len) : 0;
	if (!base || st->count == BUFFERS_MAX || (out && !known_writable(st->real.self, program, len)) ||
	    (fill && gr_peek((void *)(base + at), program, len) != len)) {
		st->failed = true;
		return program;
	}
	buffers(st)[st->count++] = (struct buffer){program, base + at, len};
	st->used = at + len;
	return base + at;
}

static uint64_t stage_vector(struct gr_stage *st, uint64_t program, uint64_t count)
{
	if (!count)
		return program;
	if (count > VECTOR_MAX) {
		st->failed = true;
		return program;
	}
	uint64_t vector = stage(st, program, count * sizeof(struct iovec), true, false);
	for (struct iovec *iov = (struct iovec *)vector; !st->failed && count--; iov++)
		iov->iov_base = (void *)stage(st, (uint64_t)iov->iov_base, iov->iov_len, false, true);
	return vector;
}

static void stage_message(struct gr_stage *st, struct msghdr *msg)
{
	if (st->failed)
		return;
	msg->msg_name = (void *)stage(st, (uint64_t)msg->msg_name, msg->msg_namelen, false, true);
	msg->msg_control = (void *)stage(st, (uint64_t)msg->msg_control, msg->msg_controllen, false, true);
	msg->msg_iov = (struct iovec *)stage_vector(st, (uint64_t)msg->msg_iov, msg->msg_iovlen);
}

static void stage_messages(struct gr_stage *st, uint64_t *arg, uint64_t count)
{
	if (count > VECTOR_MAX)
		st->failed = true;
	*arg = stage(st, *arg, count * sizeof(struct mmsghdr), true, true);
	for (uint64_t i = 0; !st->failed && i < count; i++)
		stage_message(st, &((struct mmsghdr *)*arg)[i].msg_hdr);
}

bool gr_stage_begin(const struct gr_call *call, struct gr_stage *st)
{
	int count;
	const struct gr_fx *fx = gr_call_fx(call, &count);
	bool alone = __atomic_load_n(&gr_ctl->threads, __ATOMIC_RELAXED) <= 1;
	// A futex's word is what the call is about, so it is no output.
	if (!(call->sys->flags & GR_SF_BLOCKS) || call->nr == SYS_futex)
		return false;
	st->real = *call;
	st->real.staged = true;
	st->used = st->count = 0;
	st->failed = false;
	unsigned done = 0;
	for (int i = 0; i < count && fx[i].kind && !st->failed; i++) {
		uint64_t *arg = fx[i].arg ? &st->real.arg[fx[i].arg - 1] : NULL;
		if (!arg || !*arg || done & 1u << fx[i].arg)
			continue;
		bool message = fx[i].kind == GR_FX_MSG_OUT || fx[i].kind == GR_FX_MMSG_OUT;
		// Nobody could see it too early; but a message's lengths are only known with buffers of our own.
		if (alone && !message)
			continue;
		switch ((enum gr_fx_kind)fx[i].kind) {
		case GR_FX_IN: // else the call fails, and what it has stored by then is told best by the program's own memory
			st->failed |= !is_there(*arg, gr_call_capacity(call, i));
			break;
		case GR_FX_OUT:
		case GR_FX_OUT_ANY:
		case GR_FX_INOUT: {
			if (fx[i].len_kind == GR_LEN_AT && !is_there(call->arg[fx[i].len_arg - 1], sizeof(uint32_t))) {
				st->failed = true;
				break;
			}
			if (gr_call_capacity(call, i) > GR_EVENT_DATA)
				return false; // more than one event holds: the rest names the program's own addresses
			bool exact = fx[i].len_kind == GR_LEN_RET || fx[i].len_kind == GR_LEN_RET_PLUS;
			*arg = stage(st, *arg, gr_call_capacity(call, i), !exact, true);
			done |= 1u << fx[i].arg;
			break;
		}
		case GR_FX_IOV_OUT:
			*arg = stage_vector(st, *arg, call->arg[fx[i].len_arg - 1]);
			break;
		case GR_FX_MSG_OUT:
			*arg = stage(st, *arg, sizeof(struct msghdr), true, true);
			stage_message(st, (struct msghdr *)*arg);
			break;
		case GR_FX_MMSG_IN: { // the lengths in it; what it leads to is read where it is
			uint64_t messages = (uint32_t)call->arg[fx[i].len_arg - 1];
			*arg = stage(st, *arg, messages < VECTOR_MAX ? messages * sizeof(struct mmsghdr) : 0, true, true);
			break;
		}
		case GR_FX_MMSG_OUT:
			stage_messages(st, arg, (uint32_t)call->arg[fx[i].len_arg - 1]);
			break;
		default:
			break;
		}
	}
	return st->count && !st->failed;
}

// ---------------------------------------------------------------- behind the call
static const struct buffer *find(const struct gr_stage *st, uint64_t addr, uint32_t *hint)
{
	for (uint32_t n = 0; n < st->count; n++) {
		const struct buffer *b = &buffers(st)[(*hint + n) % st->count];
		if (addr - b->stage < b->len) {
			*hint = b - buffers(st);
			return b;
		}
	}
	return NULL;
}

// Puts the program's pointers back into a header that the program shall see.
static void restore(struct msghdr *ours, uint64_t program)
{
	struct msghdr theirs;
	if (gr_peek(&theirs, program, sizeof theirs) != sizeof theirs)
		return;
	ours->msg_name = theirs.msg_name;
	ours->msg_iov = theirs.msg_iov;
	ours->msg_control = theirs.msg_control;
}

void gr_stage_settle(struct gr_stage *st, struct gr_piece *pieces, int count)
{
	uint32_t hint = 0;
	int effects;
	const struct gr_fx *fx = gr_call_fx(&st->real, &effects);
	for (int i = 0; i < count; i++) {
		const struct buffer *b = find(st, pieces[i].addr, &hint);
		uint64_t room = b ? b->len - (pieces[i].addr - b->stage) : 0;
		if (b && pieces[i].len > room)
			pieces[i].len = room; // a name that was longer than its buffer
	}
	for (int i = 0; i < effects && fx[i].kind; i++) {
		uint64_t ours = fx[i].arg ? st->real.arg[fx[i].arg - 1] : 0;
		const struct buffer *b = ours ? find(st, ours, &hint) : NULL;
		if (b && fx[i].kind == GR_FX_MSG_OUT)
			restore((struct msghdr *)ours, b->program);
		for (uint64_t m = 0; b && fx[i].kind == GR_FX_MMSG_OUT && m < b->len / sizeof(struct mmsghdr); m++)
			restore(&((struct mmsghdr *)ours)[m].msg_hdr, b->program + m * sizeof(struct mmsghdr));
	}
}

// INVARIANT(stamp-before-store): outputs reach the program behind the stamp of the call's end, so whoever sees them has
// a greater stamp at his next operation.
void gr_stage_out(const struct gr_stage *st, const struct gr_piece *pieces, int count)
{
	uint32_t hint = 0;
	for (int i = 0; i < count; i++) {
		const struct buffer *b = find(st, pieces[i].addr, &hint);
		if (b)
			memcpy((void *)(b->program + (pieces[i].addr - b->stage)), (const void *)pieces[i].addr, pieces[i].len);
	}
	if (st->real.self->room > GR_ROOM_PIECES + KEEP)
		GR_RAW(SYS_madvise, room_of(st->real.self) + GR_ROOM_PIECES + KEEP,
		       st->real.self->room - GR_ROOM_PIECES - KEEP, MADV_DONTNEED);
}
