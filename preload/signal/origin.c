// A copy of the process, to read its memory back from; see loop.h.
// Runs in: the engine's handlers of a replay, on their stack; the copy.
// May call: core.
// Owns: the copy and the registers that belong to it.
#include "loop.h"

#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "../core/nolibc.h"
#include "../core/raw.h"

#define VECTORS 4096

static struct {
	long pid;
	struct gr_context context;
	uint8_t vectors[VECTORS];
} origin;

// INVARIANT(no-copy-outlives-its-server): the kernel ends the copy with the process that made it.
static _Noreturn void sleep_for(long parent)
{
	GR_RAW(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL);
	while (GR_RAW(SYS_getppid) == parent)
		GR_RAW(SYS_pause);
	for (;;)
		GR_RAW(SYS_exit_group, 0);
}

// Other threads stand at the gate meanwhile, so all memory is of one moment.
void gr_origin_keep(const struct gr_context *at)
{
	long parent = gr_pid();
	if (origin.pid || gr_frame_vectors() > VECTORS)
		return;
	origin.context = *at;
	memcpy(origin.vectors, (const void *)at->fpstate, gr_frame_vectors());
	long pid = GR_RAW(SYS_clone, 0, 0, 0, 0, 0); // without a signal at its end
	if (pid == 0)
		sleep_for(parent);
	origin.pid = pid > 0 ? pid : 0;
}

static void fetch(void *arg, uint64_t from, uint64_t to)
{
	(void)arg;
	while (from < to) {
		struct iovec here = {(void *)from, to - from}, there = here;
		long n = GR_RAW(SYS_process_vm_readv, origin.pid, &here, 1, &there, 1, 0);
		if (n <= 0)
			return; // what was mapped since then was by nobody: a segment makes no calls
		from += n;
	}
}

bool gr_origin_return(struct gr_thread *self, struct gr_context *at)
{
	if (!origin.pid)
		return false;
	gr_state_ranges(self, &origin.context, fetch, NULL);
	memcpy(at->greg, origin.context.greg, GR_STATE_REGISTERS * sizeof *at->greg);
	memcpy((void *)at->fpstate, origin.vectors, gr_frame_vectors());
	return true;
}

void gr_origin_drop(void)
{
	if (!origin.pid)
		return;
	GR_RAW(SYS_kill, origin.pid, SIGKILL);
	GR_RAW(SYS_wait4, origin.pid, 0, __WALL, 0);
	origin.pid = 0;
}
