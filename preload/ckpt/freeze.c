// Freezing: one raw clone of the process; the copy is a single task that waits for GR_CMD_WAKE.
// Runs in: the thread that stands, with every other thread parked; the frozen copy, on the wake stack.
// May call: core, ctl, replay.
// Owns: the wake stack.
#include <signal.h>
#include <sched.h>
#include <sys/prctl.h>

#include "../core/nolibc.h"
#include "../core/page.h"
#include "../core/panic.h"
#include "../core/raw.h"
#include "../count/count.h"
#include "../ctl/slot.h"
#include "../replay/gate.h"
#include "../replay/park.h"
#include "../syscall/memory/alias.h"
#include "files.h"
#include "wake.h"

static char wake_stack[0x4000] __attribute__((aligned(64)));

// INVARIANT(no-copy-outlives-its-server): every process of a replay dies with the controller, and one whose controller
// died before it could say so ends by itself.
static void die_with_controller(void)
{
	static long controller;
	GR_RAW(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL);
	long parent = GR_RAW(SYS_getppid);
	if (controller && parent != controller)
		GR_RAW(SYS_exit_group, 1);
	controller = parent;
}

void gr_ckpt_init(void)
{
	die_with_controller();
	gr_park_init(gr_wake_remade);
}

// A copy is a sibling, not a child, of its original: the controller is the parent of all.
static long copy(void)
{
	return GR_RAW(SYS_clone, SIGCHLD | CLONE_PARENT, 0, 0, 0, 0);
}

static void announce_in(struct gr_slot *slot, enum gr_slot_state state)
{
	struct gr_slot *own = gr_slot;
	gr_slot = slot;
	gr_slot_announce(state);
	gr_slot = own;
}

// INVARIANT(no-answer-no-copy): a copy that could not be made is told of in the slot that it was to have, or the controller
// would wait for it.
static void refused(struct gr_slot *slot, long error)
{
	slot->pid = 0;
	slot->panic.set = 1;
	slot->panic.code = GR_PANIC_REFUSED;
	gr_format(slot->panic.text, sizeof slot->panic.text,
		  "another process (error %d)\nraise `ulimit -u`, or lower limits.checkpoints in the profile", -error);
	announce_in(slot, GR_S_PANIC);
}

static void frozen(void *arg)
{
	uint32_t seen = 0; // INVARIANT(no-command-lost): it may be told something before it has ever run
	gr_slot = arg;
	die_with_controller();
	gr_alias_copied(true);
	for (;;) {
		enum gr_cmd cmd = gr_slot_command(&seen);
		if (cmd == GR_CMD_DIE)
			GR_RAW(SYS_exit_group, 0);
		if (cmd == GR_CMD_COUNT) {
			gr_count_tell();
			gr_slot_announce(GR_S_FROZEN);
		}
		if (cmd != GR_CMD_WAKE)
			continue;
		struct gr_slot *slot = &gr_ctl->slot[gr_slot->arg_slot % GR_SLOTS];
		long pid = copy();
		if (pid == 0) {
			gr_slot = slot;
			gr_slot->pid = gr_pid();
			die_with_controller();
			gr_alias_copied(false);
			gr_wake();
		}
		if (pid < 0)
			refused(slot, pid);
		gr_slot_announce(GR_S_FROZEN);
	}
}

void gr_ckpt_freeze(struct gr_thread *self, uint32_t number)
{
	for (uint32_t i = 0; i < gr_thread_blocks(); i++) {
		struct gr_thread *t = gr_thread_block(i);
		if (t != self && gr_thread_lives(t))
			gr_park_await(t);
	}
	if (GR_PARK_SAVE(self)) { // a woken copy
		gr_wake_complete();
		return;
	}
	struct gr_slot *slot = &gr_ctl->slot[number % GR_SLOTS];
	gr_files_note();
	gr_alias_before();
	long pid = copy();
	if (pid == 0)
		gr_call_on((uint64_t)wake_stack + sizeof wake_stack, frozen, slot);
	if (pid < 0) {
		refused(slot, pid);
		return;
	}
	gr_alias_await();
	// The copy is whole from here on, and need not have run to be told of.
	slot->pid = pid;
	slot->tick = gr_replay.tick;
	announce_in(slot, GR_S_FROZEN);
}
