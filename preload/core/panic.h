// The end of a run that cannot go on: the reason goes to the control page, never to the program's descriptors.
// Runs in: everywhere in the engine.
// May call: raw system calls.
// Owns: the panic record of our slot.
#pragma once

// Of a thread that the kernel makes not: while recording the program is told, but a replay cannot be another one.
#define GR_NO_THREAD "another thread (error %d)\nraise `ulimit -u`, or lower limits.checkpoints in the profile"

#include "../abi.h"
#include "thread.h"

// Fills in the slot's panic once (the first one wins) and returns it; NULL if there was one already.
struct gr_panic *gr_panic_open(struct gr_thread *self, enum gr_panic_code code);

// Publishes it and ends the process: exit status 125; a process that a controller holds waits for GR_CMD_DIE.
_Noreturn void gr_panic_close(void);

_Noreturn void gr_panic(struct gr_thread *self, enum gr_panic_code code, const char *format, uint64_t a, uint64_t b);
