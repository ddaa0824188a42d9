// Recording calls that only ask; see query.h.
// Runs in: application threads, on the engine's stack.
// May call: core, log.
// Owns: gr_quick, the numbers of the calls that take the short way.
//
// The short way: no frame is built and nothing is shown to a debugger, because nothing that happens in such a call needs them.
// Whatever is unusual (a signal that is held, a cancellation, the end of a chunk) sends the call to the door, before anything has
// happened. A signal that comes meanwhile waits for the thread's next operation, as one does that comes when a call at the
// door is nearly over.
#include "query.h"

#include <errno.h>

#include "../../core/copy.h"
#include "../../core/ops.h"
#include "../../core/nolibc.h"
#include "../../core/raw.h"
#include "../../digest/digest.h"
#include "../../log/turn.h"
#include "../descriptor.h"

// INVARIANT(query-is-one-place): nothing can come between its start and its end that would have to be told apart, so both
// are logged behind it, at neighbouring stamps.
static bool is_asking(const struct gr_sys *sys)
{
	return !sys->flags && (sys->cls == GR_CLASS_time || sys->cls == GR_CLASS_random || sys->cls == GR_CLASS_proc);
}

bool gr_is_query(const struct gr_call *call)
{
	return is_asking(call->sys) && !gr_fd_makes(call);
}

void gr_query_record(struct gr_call *call)
{
	struct gr_piece *pieces = gr_call_room(call->self);
	struct gr_event start = {.kind = GR_OP_SYS_START, .nr = call->nr + 1, .check = gr_call_check(call), .flags = call->action};
	struct gr_event end = {.kind = GR_OP_SYS_END, .nr = call->nr + 1};
	gr_call_before(call);
	end.result = call->result = gr_call_kernel(call);
	int count = call->action == GR_ACT_RECORD ? gr_call_outputs(call, pieces) : 0;
	if (count < 0)
		gr_refuse(call);
	gr_log_pair(call->self, &start, &end, pieces, count);
}

// ---------------------------------------------------------------- the short way
#define ARGS 3
#define ROWS 64

struct row {
	uint16_t nr;
	bool transfer;    // see transfer.c
	bool vdso;        // its code may know
	uint8_t action, nargs;
	uint8_t pointers; // bit N: argument N, from 0
	uint8_t outs;     // of those, in `out`
	struct { uint8_t arg, length; } out[2];
};

static struct row rows[ROWS];
uint8_t gr_quick[GR_SYS_MAX] __attribute__((visibility("hidden"))); // entry.S: the number of the row, 0 for none

// Calls about a thread are told apart by more than their arguments.
static bool names_thread(long nr)
{
	return nr == SYS_sched_getparam || nr == SYS_sched_getscheduler || nr == SYS_sched_getaffinity ||
	       nr == SYS_clock_getres || nr == SYS_sched_rr_get_interval || nr == SYS_sched_getattr || nr == SYS_get_robust_list;
}

static bool row_of(long nr, struct row *row)
{
	const struct gr_sys *sys = &gr_sys_table[nr];
	uint32_t total = 0;
	*row = (struct row){.nr = nr, .action = gr_ctl->sys_action[nr], .nargs = sys->nargs};
	row->vdso = nr == SYS_clock_gettime || nr == SYS_gettimeofday || nr == SYS_time || nr == SYS_getcpu;
	if (!sys->name || !is_asking(sys) || names_thread(nr) || sys->nargs > ARGS || row->action > GR_ACT_IGNORE)
		return false;
	for (int i = 0; i < GR_FX_MAX && sys->fx[i].kind; i++) {
		const struct gr_fx *fx = &sys->fx[i];
		if (fx->kind != GR_FX_OUT || fx->len_kind != GR_LEN_BYTES || i == 2 || (total += fx->scale) > GR_QUERY_DATA)
			return false;
		row->pointers |= 1u << (fx->arg - 1);
		row->out[row->outs].arg = fx->arg - 1;
		row->out[row->outs++].length = fx->scale;
	}
	return true;
}

// Where somebody looks at the thread whenever he likes, or at every operation, all take the long way.
void gr_query_init(void)
{
	unsigned used = 1;
	if (gr_turn_on || gr_digest_on() || gr_slot->flags & GR_SLOT_DEBUGGED)
		return;
	for (long nr = 0; nr < GR_SYS_MAX && used < ROWS; nr++)
		if (row_of(nr, &rows[used]) || (rows[used].transfer = gr_is_transfer(nr)))
			gr_quick[nr] = used++;
}

static bool is_usual(const struct gr_thread *self)
{
	return gr_mode == GR_MODE_RECORD && !self->nest && gr_signal_none(self) && !self->within &&
	       !__atomic_load_n(&self->cancel, __ATOMIC_RELAXED) && gr_log_ready(self, GR_QUERY_DATA);
}

static uint32_t check_of(const struct row *row, const uint64_t arg[ARGS])
{
	uint64_t hash = GR_HASH_SEED;
	for (unsigned i = 0; i < row->nargs; i++)
		hash = gr_hash_word(hash, row->pointers >> i & 1 ? arg[i] != 0 : arg[i]);
	return (uint32_t)(hash ^ hash >> 32);
}

// Of a buffer that is not all there, the kernel has filled what is.
static struct gr_piece piece_of(uint64_t addr, uint32_t length, bool torn)
{
	uint32_t whole = length, there = 4096 - (addr & 4095);
	char byte;
	if (torn && gr_peek(&byte, addr, 1) != 1)
		length = 0;
	else if (torn && there < whole && gr_peek(&byte, addr + there, 1) != 1)
		length = there;
	return (struct gr_piece){addr, length, false};
}

// By itself: what leads to a transfer keeps nothing on the stack and leaves by a jump.
static __attribute__((noinline)) struct gr_quick_end ask(const struct row *row, uint64_t a, uint64_t b, uint64_t c, struct gr_thread *self)
{
	const uint64_t arg[ARGS] = {a, b, c};
	struct gr_piece pieces[2];
	struct gr_vdso_answer answer = {.len = 0};
	long result;
	unsigned count = 0;
	if (!row->vdso || !gr_vdso_answers(self, row->nr, arg, &answer, &result)) {
		if (row->nr == SYS_clock_gettime) // of the number of a clock, or of a thread, the kernel looks at a half
			return (struct gr_quick_end){row->nr, 0};
		result = gr_raw6(row->nr, a, b, c, 0, 0, 0);
	}
	bool stored = row->action == GR_ACT_RECORD && (!GR_IS_ERR(result) || result == -EFAULT);
	for (unsigned i = 0; i < row->outs && stored; i++)
		if (arg[row->out[i].arg])
			pieces[count++] = piece_of(arg[row->out[i].arg], row->out[i].length, result == -EFAULT);
	if (answer.len && count && result != -EFAULT)
		pieces[0].addr = (uint64_t)&answer.bytes; // the same, and nobody can take it away
	self->operation = NULL;
	gr_log_query(self, row->nr, row->action, check_of(row, arg), result, pieces, count);
	return (struct gr_quick_end){result, 1};
}

struct gr_quick_end gr_query_quick(uint64_t a, uint64_t b, uint64_t c, unsigned number, struct gr_thread *self,
				   const struct gr_quick_saved *saved)
{
	const struct row *row = &rows[number];
	if (!is_usual(self))
		return (struct gr_quick_end){row->nr, 0};
	return row->transfer ? gr_transfer_quick(saved, row->nr, self) : ask(row, a, b, c, self);
}
