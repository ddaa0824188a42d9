// Recording a call: it is made, on the program's memory or on buffers of the engine, and what it brought in is logged.
// Runs in: application threads, on the engine's stack.
// May call: core, log.
// Owns: what goes with the end of a call.
#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>

#include "../core/nolibc.h"
#include "../core/ops.h"
#include "../core/page.h"
#include "../core/panic.h"
#include "../core/raw.h"
#include "../digest/digest.h"
#include "../log/turn.h"
#include "../replay/cancel.h"
#include "../replay/halt.h"
#include "../signal/frame.h"
#include "../signal/signal.h"
#include "descriptor.h"
#include "dispatch.h"
#include "fd/echo.h"
#include "fd/input.h"
#include "fd/output.h"
#include "fd/refer.h"
#include "memory/memory.h"
#include "query/query.h"

// Where the stores of this call are gathered: in the thread's room, behind the buffers of the call.
static void stores_open(struct gr_call *call, uint64_t used, struct gr_stores *stores)
{
	bool writes = call->sys->flags & GR_SF_IRREVOCABLE && call->result > 0 && call->nr != SYS_ioctl;
	uint64_t size = 0x10000 + 2 * used + (writes ? 4 * (uint64_t)call->result : 0);
	used = (used + 15) & ~15ULL;
	uint64_t base = gr_room(call->self, used + size);
	uint8_t *first = base ? (uint8_t *)base + used : NULL; // without room, only a store would be too many
	*stores = (struct gr_stores){first, first + (base ? size : 0), false};
}

// Calls that change files, make descriptors or move the process may have effects beside their outputs.
static bool may_store(const struct gr_call *call)
{
	return call->sys->flags & GR_SF_IRREVOCABLE || gr_fd_makes(call) || call->nr == SYS_chdir || call->nr == SYS_fchdir;
}

// The class and origin of what a call made.
static uint8_t probe(const struct gr_call *call)
{
	int fd = call->result;
	int count;
	const struct gr_fx *fx = gr_call_fx(call, &count);
	for (int i = 0; i < count && fx[i].kind; i++)
		if (fx[i].kind == GR_FX_MAKES_AT)
			fd = *(int *)call->arg[fx[i].arg - 1];
	uint8_t found = gr_fd_probe(fd);
	if (call->action == GR_ACT_RECORD && found)
		found |= GR_FD_RECORDED | gr_echo_reopened(call);
	return found;
}

// An ioctl that no table knows may make a descriptor: then its result is a number that was none.
static bool made_unsaid(const struct gr_call *call)
{
	return call->result > 2 && call->result < GR_DESCRIPTORS && gr_fd_get(call->result) == GR_FD_NONE &&
	       GR_RAW(SYS_fcntl, call->result, F_GETFD) >= 0;
}

// A call that was made on the short way, where its start was logged.
static long begun(const struct gr_call *call)
{
	long ret = call->self->begun_result;
	call->self->begun = GR_BEGUN_NOT;
	return ret == GR_RESTART || ret == -EINTR ? gr_signal_waited(call->self, call->nr, call->arg, ret) : ret;
}

// A call that may wait, as nearly all are. The kernel's way out leaves the processor without its predictions of returns, so each
// function between the instruction and here costs some 8 ns: there are none.
static inline long make(const struct gr_call *call)
{
	static const uint32_t none;
	const uint64_t *a = call->arg;
	uint64_t mask;
	bool waits = call->sys->flags & GR_SF_BLOCKS && !gr_signal_held(call->self);
	if (call->self->begun)
		return begun(call);
	if (!waits || call->self->ticking || gr_cancel_open(call->self) || gr_signal_temporary(call->nr, a, &mask))
		return gr_call_waiting(call);
	long ret = gr_wait6(call->nr, a[0], a[1], a[2], a[3], a[4], a[5], &call->self->held, &none);
	return ret == GR_RESTART || ret == -EINTR ? gr_signal_waited(call->self, call->nr, a, ret) : ret;
}

void gr_call_record(struct gr_call *call)
{
	struct gr_stage stage;
	struct gr_compare compare;
	struct gr_stores stores;
	struct gr_piece *pieces = gr_call_room(call->self);
	int count = 0;
	call->action = gr_rule_action(call);
	if (call->action == GR_ACT_REFUSE)
		gr_refuse(call);
	if (call->action == GR_ACT_RECORD && call->ioctl.kind == GR_FX_REFUSED)
		gr_refuse_ioctl(call);
	if (gr_is_query(call)) {
		gr_query_record(call);
		return;
	}
	struct gr_refer refer;
	struct gr_piece referred;
	bool refers = call->action == GR_ACT_RECORD && gr_refer_begin(call, &refer);
	if (call->action == GR_ACT_RECORD && may_store(call))
		gr_refer_changes(call);
	uint32_t *queue;
	enum gr_queued queued = gr_queue_enter(call, &queue);
	if (!call->self->begun)
		gr_call_start(call);
	bool compared = call->action == GR_ACT_RECORD && call->ioctl.kind == GR_FX_COMPARE;
	if (compared)
		gr_compare_begin(call, _IOC_SIZE(call->arg[1]), &compare);
	bool staged = !compared && call->action == GR_ACT_RECORD && gr_stage_begin(call, &stage);
	struct gr_call *real = compared ? &compare.real : staged ? &stage.real : call;
	bool beside = gr_digest_beside();
	bool early = (gr_turn_on || beside) && (call->action != GR_ACT_RECORD || (!staged && gr_call_stores_early(call)));
	bool stands = beside && !early;
	if (gr_turn_on) {
		call->self->seat.stores = early;
		gr_turn_call(call->self, gr_call_waits(call));
	}
	if (stands)
		gr_halt_stand(call->self);
	if (!gr_echo_ready(real, &real->result))
		;
	else if (queued == GR_QUEUE_ENDED)
		real->result = gr_signal_wait(call->self, real->nr, real->arg, gr_queue_ended);
	else if (!call->self->stash.signals || !gr_stash_take(call->self, real->nr, real->arg, &real->result))
		real->result = make(real);
	if (call->self->stash.signals) { // perhaps since then
		if (real->result == -EINTR)
			gr_stash_take(call->self, real->nr, real->arg, &real->result);
		gr_stash_show(call->self, real->nr, real->arg);
	}
	if (stands)
		gr_halt_go(call->self);
	if (gr_turn_on)
		gr_turn_back(call->self);
	call->self->seat.stores = false;
	call->result = real->result;
	struct gr_event ev = {.kind = GR_OP_SYS_END, .nr = call->nr + 1, .result = call->result};
	if (call->action == GR_ACT_RECORD) {
		count = gr_call_outputs(real, pieces);
		if (count < 0)
			gr_refuse(call);
		if (staged)
			gr_stage_settle(&stage, pieces, count);
	} else if (call->action == GR_ACT_NATIVE) {
		ev.check = gr_call_contents(call);
	}
	if (compared ? made_unsaid(call) : gr_fd_makes(call) && call->result >= 0)
		ev.flags = probe(call);
	else
		ev.flags = gr_output_placed(call);
	if (call->action != GR_ACT_RECORD && ev.flags == GR_CLASS_file)
		gr_input_note(call->result);
	int brought = count;
	const struct gr_piece *logged = pieces;
	if (refers) {
		stores_open(call, staged ? stage.used : 0, &stores);
		const uint8_t *first = stores.at;
		if (gr_refer_end(call, real, &refer, &stores) && !stores.full) {
			ev.object = stores.at - first;
			referred = (struct gr_piece){(uint64_t)first, ev.object, false};
			logged = &referred;
			count = 1;
		}
	}
	if (may_store(call)) {
		stores_open(call, compared ? compare.used : staged ? stage.used : 0, &stores);
		const uint8_t *first = stores.at;
		if (compared)
			gr_compare_keep(&compare, &stores);
		gr_view_written(call, &stores);
		gr_echo_keep(real, &stores);
		gr_rule_chdir(call, &stores);
		if (stores.full)
			gr_panic(call->self, GR_PANIC_REFUSED, "a write of %u bytes to a mapped file", call->result, 0);
		if (stores.at != first) {
			ev.object = stores.at - first;
			pieces[count++] = (struct gr_piece){(uint64_t)first, ev.object, false};
		}
	}
	gr_log_pieces(call->self, &ev, logged, count, 0);
	gr_queue_leave(queue);
	if (staged)
		gr_stage_out(&stage, pieces, brought);
	if (compared)
		gr_compare_out(&compare);
	gr_fd_update(call, ev.flags);
	if (call->sys->cls == GR_CLASS_net) {
		gr_fd_received(call);
		gr_fd_sent(call);
	}
	if (may_store(call)) {
		gr_rule_done(call);
		gr_storable_changed(); // a file may be shorter
	}
}
