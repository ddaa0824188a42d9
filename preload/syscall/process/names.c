// The names of threads: what they call themselves, and the kernel's ids in calls, as the recording has them.
// Runs in: application threads, on the engine's stack.
// May call: core.
// Owns: which arguments are such ids, and which call names its thread.
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "../../core/raw.h"
#include "names.h"

void gr_name_self(struct gr_call *call)
{
	if (call->nr != SYS_prctl || call->arg[0] != PR_SET_NAME)
		return;
	GR_RAW(SYS_prctl, PR_SET_NAME, call->arg[1], 0, 0, 0);
	GR_RAW(SYS_prctl, PR_GET_NAME, call->self->name.text, 0, 0, 0); // it is read by the kernel, which does not mind a bad address
}

// The argument that is the kernel's id of a thread, which the C library reads from the thread's descriptor.
static unsigned tid_position(long nr)
{
	switch (nr) {
	case SYS_tkill:
	case SYS_sched_setparam:
	case SYS_sched_getparam:
	case SYS_sched_setscheduler:
	case SYS_sched_getscheduler:
	case SYS_sched_setaffinity:
	case SYS_sched_getaffinity:
	case SYS_sched_rr_get_interval:
	case SYS_sched_setattr:
	case SYS_sched_getattr:
	case SYS_get_robust_list:
		return 1;
	case SYS_tgkill:
	case SYS_rt_tgsigqueueinfo:
		return 2;
	}
	return 0;
}

uint64_t gr_recorded_id(uint64_t id, struct gr_meaning *which)
{
	uint32_t recorded = (uint32_t)id;
	if (gr_mode != GR_MODE_REPLAY)
		return id;
	which->found |= gr_thread_recorded(recorded, which->nth, &recorded);
	return recorded;
}

// A thread's processor time is a clock whose number holds the kernel's id of the thread.
static bool is_thread_clock(const struct gr_call *call)
{
	switch (call->nr) {
	case SYS_clock_gettime:
	case SYS_clock_getres:
	case SYS_clock_settime:
	case SYS_clock_adjtime:
	case SYS_clock_nanosleep:
	case SYS_timer_create:
		return (int)call->arg[0] < 0;
	}
	return false;
}

static uint64_t recorded_clock(uint64_t number, struct gr_meaning *which)
{
	uint32_t id = ~(uint32_t)number >> 3;
	return ~(uint32_t)gr_recorded_id(id, which) << 3 | (number & 7);
}

// Joining with a time limit waits for the word in which the kernel clears the thread's id.
static uint64_t waited_id(const struct gr_call *call)
{
	uint32_t tid = (uint32_t)call->arg[2];
	for (uint32_t i = 0; gr_mode == GR_MODE_REPLAY && i < GR_LIVE_THREADS; i++) {
		const struct gr_thread *t = gr_thread_block(i);
		if (gr_thread_untouched(t))
			break;
		if ((uint64_t)t->ctid == call->arg[0] && gr_thread_is(t, tid))
			return t->pub.recorded_tid;
	}
	return tid;
}

uint64_t gr_recorded_argument(const struct gr_call *call, unsigned position, struct gr_meaning *which)
{
	uint64_t value = call->arg[position - 1];
	if (position == tid_position(call->nr))
		return gr_recorded_id(value, which);
	if (position == 1 && is_thread_clock(call))
		return recorded_clock(value, which);
	return position == 3 && call->nr == SYS_futex ? waited_id(call) : value;
}
