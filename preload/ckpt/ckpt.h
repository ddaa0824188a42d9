// Checkpoints: freezing a copy of the process, waking copies of the copy.
// Runs in: the thread of a replay that stands; the frozen copy; the copies woken from it.
// May call: core, ctl, replay.
// Owns: the wake stack, the count of threads made again.
#pragma once

#include "../core/thread.h"

// Installs itself as what parks and commands need (gr_park_init, gr_gate_on_command's GR_CMD_FREEZE).
void gr_ckpt_init(void);

// GR_CMD_FREEZE: leaves a frozen copy in slot `number`. Returns in every copy that is woken from it too.
void gr_ckpt_freeze(struct gr_thread *self, uint32_t number);
