// Talking with the controller; see slot.h.
// Runs in: the one thread of a replay that has the turn; frozen copies.
// May call: core, raw system calls.
// Owns: the futex words of our slot.
#include "slot.h"

#include <linux/futex.h>

#include "../core/page.h"
#include "../core/raw.h"

void gr_slot_announce(enum gr_slot_state state)
{
	__atomic_store_n(&gr_slot->state, state, __ATOMIC_RELEASE);
	__atomic_fetch_add(&gr_slot->ack_seq, 1, __ATOMIC_ACQ_REL);
	GR_RAW(SYS_futex, &gr_slot->ack_seq, FUTEX_WAKE, 0x7fffffff, 0, 0, 0);
}

enum gr_cmd gr_slot_command(uint32_t *seen)
{
	uint32_t now;
	while ((now = __atomic_load_n(&gr_slot->cmd_seq, __ATOMIC_ACQUIRE)) == *seen)
		GR_RAW(SYS_futex, &gr_slot->cmd_seq, FUTEX_WAIT, now, 0, 0, 0);
	*seen = now;
	return gr_slot->cmd;
}

void gr_slot_stretch(uint64_t start, uint64_t end)
{
	uint32_t n = gr_slot->stretches;
	if (n < GR_STRETCHES) {
		gr_slot->stretch[n] = (struct gr_stretch){start, end};
		gr_slot->stretches = n + 1;
		return;
	}
	struct gr_stretch *last = &gr_slot->stretch[GR_STRETCHES - 1];
	last->start = start < last->start ? start : last->start;
	last->end = end > last->end ? end : last->end;
}
