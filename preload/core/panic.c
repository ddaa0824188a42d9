// The end of a run that cannot go on; see panic.h.
// Runs in: everywhere in the engine.
// May call: raw system calls.
// Owns: the panic record of our slot; what core/page.h declares.
#include "panic.h"

#include <linux/futex.h>

#include "nolibc.h"
#include "page.h"
#include "raw.h"

enum gr_mode gr_mode;
struct gr_range gr_outpost;
bool gr_closed;
bool gr_tsc_recorded, gr_tsc_trapped;
struct gr_slot *gr_slot = &((struct gr_ctl *)GR_CTL_ADDR)->slot[0];

struct gr_panic *gr_panic_open(struct gr_thread *self, enum gr_panic_code code)
{
	struct gr_panic *p = &gr_slot->panic;
	uint32_t unset = 0;
	if (!__atomic_compare_exchange_n(&p->set, &unset, 1, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		return NULL;
	p->code = code;
	p->tick = gr_slot->tick;
	if (self) {
		p->thread = self->pub.index;
		p->pc = self->pub.shown.rip;
		p->sp = self->pub.shown.rsp;
	}
	return p;
}

_Noreturn void gr_panic_close(void)
{
	__atomic_store_n(&gr_slot->state, GR_S_PANIC, __ATOMIC_RELEASE);
	__atomic_fetch_add(&gr_slot->ack_seq, 1, __ATOMIC_ACQ_REL);
	GR_RAW(SYS_futex, &gr_slot->ack_seq, FUTEX_WAKE, 0x7fffffff, 0, 0, 0);
	// A debugger waits for a stop and for nothing else.
	if (gr_mode == GR_MODE_REPLAY && gr_slot->flags & GR_SLOT_DEBUGGED)
		__asm__ volatile("int3");
	if (gr_mode == GR_MODE_REPLAY && gr_slot->flags & (GR_SLOT_HOLD_END | GR_SLOT_HOLD_PANIC))
		for (;;) {
			uint32_t seen = __atomic_load_n(&gr_slot->cmd_seq, __ATOMIC_ACQUIRE);
			if (gr_slot->cmd == GR_CMD_DIE)
				break;
			GR_RAW(SYS_futex, &gr_slot->cmd_seq, FUTEX_WAIT, seen, 0, 0, 0);
		}
	for (;;)
		GR_RAW(SYS_exit_group, 125);
}

_Noreturn void gr_panic(struct gr_thread *self, enum gr_panic_code code, const char *format, uint64_t a, uint64_t b)
{
	struct gr_panic *p = gr_panic_open(self, code);
	if (p)
		gr_format(p->text, sizeof p->text, format, a, b);
	gr_panic_close();
}
