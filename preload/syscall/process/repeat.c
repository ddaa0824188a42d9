// Recorded calls that change how the kernel treats the process itself: a replay makes them again.
// Runs in: application threads of a replay, on the engine's stack.
// May call: core.
// Owns: which calls these are.
#include <sys/personality.h>
#include <sys/resource.h>

#include "../../core/copy.h"
#include "../../core/raw.h"
#include "process.h"

bool gr_read_executes;

// How far the stack may grow is seen by who runs out of it. The hard limit stays: it could not be raised again.
static void limit_stack(uint64_t soft)
{
	struct rlimit own;
	if (GR_RAW(SYS_prlimit64, 0, RLIMIT_STACK, NULL, &own))
		return;
	own.rlim_cur = soft < own.rlim_max ? soft : own.rlim_max;
	GR_RAW(SYS_prlimit64, 0, RLIMIT_STACK, &own, NULL);
}

static bool is_own(uint32_t id)
{
	for (uint32_t i = 0; i < gr_thread_blocks(); i++)
		if (gr_thread_block(i)->pub.recorded_tid == id)
			return true;
	return id == 0;
}

void gr_call_repeat(const struct gr_call *call)
{
	const uint64_t *a = call->arg;
	uint64_t soft;
	if (call->result < 0)
		return;
	switch (call->nr) {
	case SYS_setrlimit:
		if ((int)a[0] == RLIMIT_STACK && gr_peek(&soft, a[1], sizeof soft) == sizeof soft)
			limit_stack(soft);
		break;
	case SYS_prlimit64:
		if (is_own((uint32_t)a[0]) && (int)a[1] == RLIMIT_STACK && a[2] && gr_peek(&soft, a[2], sizeof soft) == sizeof soft)
			limit_stack(soft);
		break;
	case SYS_personality: // which the fence keeps from a replay
		if ((uint32_t)a[0] != 0xffffffff)
			gr_read_executes = a[0] & READ_IMPLIES_EXEC;
	}
}
