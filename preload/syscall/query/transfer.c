// Recording small reads and writes on the short way; see query.h.
// Runs in: application threads, on the engine's stack.
// May call: core, log.
// Owns: nothing.
//
// A thread that is alone needs no buffer of the engine's to wait on, and stands in no queue. INVARIANT(begun-is-ended): what a call
// that was made needs a frame for, because a signal has come, is done at the door, which finds its start in the log and its result
// in the thread; nothing in between can end the thread or the log, or take another call for it.
#include <errno.h>

#include "../../core/copy.h"
#include "../../core/nolibc.h"
#include "../../core/raw.h"
#include "../../signal/signal.h"
#include "../descriptor.h"
#include "query.h"

#define MOST 512 // bytes

// Recorded whatever its contents, not the program's output, and none that could be mapped if it is written to.
static bool is_plain(uint64_t fd, unsigned nr)
{
	uint8_t entry = gr_fd_get(fd), cls = entry & GR_FD_CLASS;
	if (cls == GR_FD_NONE || entry & (GR_FD_OUT | GR_FD_ERR))
		return false;
	if (nr == SYS_write)
		return cls == GR_CLASS_pipe || cls == GR_CLASS_net;
	return entry & GR_FD_RECORDED || gr_fd_rule(fd) == GR_ACT_RECORD;
}

// As gr_call_check() has it.
static uint32_t check_of(uint64_t fd, uint64_t buffer, uint64_t length, unsigned nr)
{
	uint8_t bytes[MOST];
	uint64_t hash = gr_hash_word(gr_hash_word(gr_hash_word(GR_HASH_SEED, fd), 1), length);
	if (nr == SYS_write)
		hash = gr_hash(hash, bytes, gr_peek(bytes, buffer, length));
	return (uint32_t)(hash ^ hash >> 32);
}

struct gr_quick_end gr_transfer_quick(uint64_t fd, uint64_t buffer, uint64_t length, unsigned nr, struct gr_thread *self)
{
	static const uint32_t none;
	const struct gr_quick_end declined = {nr, 0};
	bool alone = __atomic_load_n(&gr_ctl->threads, __ATOMIC_RELAXED) == 1;
	if (!alone || self->ticking || !buffer || length - 1 >= MOST || !is_plain(fd, nr) || !gr_log_ready(self, MOST))
		return declined;
	if (!gr_log_begun(self, nr, check_of(fd, buffer, length, nr)))
		return declined;
	long result = gr_wait6(nr, fd, buffer, length, 0, 0, 0, &self->held, &none);
	if (result == GR_RESTART || result == -EINTR || !gr_signal_none(self)) {
		self->begun = true;
		self->begun_result = result;
		return declined;
	}
	struct gr_piece brought = {buffer, (uint32_t)result, 0};
	self->operation = NULL;
	gr_log_ended(self, nr, result, nr == SYS_read && result >= 0 ? &brought : NULL);
	return (struct gr_quick_end){result, 1};
}
