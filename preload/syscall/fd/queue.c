// Threads that write to the program's output at the same time stand in a queue, so that the order of their calls in the demo is
// the order of the bytes, which the kernel tells nobody.
// Runs in: application threads while recording, on the engine's stack.
// May call: core.
// Owns: the queue.
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/stat.h>

#include "../../core/page.h"
#include "../../core/raw.h"
#include "../../log/turn.h"
#include "../../replay/cancel.h"
#include "../../signal/signal.h"
#include "output.h"

static uint32_t queues[2]; // 0: nobody writes, 1: somebody does, 2: and others may wait
static bool one_file;      // output and error go to the same place

void gr_queue_init(void)
{
	struct stat out, err;
	one_file = !GR_RAW(SYS_fstat, 1, &out) && !GR_RAW(SYS_fstat, 2, &err) && out.st_dev == err.st_dev && out.st_ino == err.st_ino;
}

static uint32_t *queue_of(const struct gr_call *call)
{
	uint32_t which = gr_output_of(call);
	if (call->nr == SYS_sendfile)
		which = gr_output_behind(call->arg[0]);
	else if (call->nr == SYS_copy_file_range || call->nr == SYS_splice)
		which = gr_output_behind(call->arg[2]);
	else if (call->nr == SYS_tee)
		which = gr_output_behind(call->arg[1]);
	return which ? &queues[one_file ? 0 : which - 1] : NULL;
}

// Would the kernel have let the call wait? Then a signal ends it here as there; else it is a matter of moments.
static bool may_wait(const struct gr_call *call)
{
	struct stat st;
	long fd = call->arg[call->nr == SYS_copy_file_range || call->nr == SYS_splice ? 2 : call->nr == SYS_tee];
	return !GR_RAW(SYS_fstat, fd, &st) && !S_ISREG(st.st_mode) && !(GR_RAW(SYS_fcntl, fd, F_GETFL) & O_NONBLOCK);
}

static bool called_away(const struct gr_thread *self, const uint32_t *cancel)
{
	return __atomic_load_n(&self->held, __ATOMIC_RELAXED) || __atomic_load_n(cancel, __ATOMIC_RELAXED) == 1;
}

enum gr_queued gr_queue_enter(const struct gr_call *call, uint32_t **ret)
{
	static const uint32_t none;
	struct gr_thread *self = call->self;
	uint32_t free = 0, *queue;
	*ret = NULL;
	if (gr_turn_on || __atomic_load_n(&gr_ctl->threads, __ATOMIC_RELAXED) < 2 || !(queue = queue_of(call)))
		return GR_QUEUE_PASSED;
	*ret = queue;
	if (__atomic_compare_exchange_n(queue, &free, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return GR_QUEUE_PASSED;
	const uint32_t *held = &self->held, *cancel = gr_cancel_open(self) ? &self->cancel : &none;
	while (__atomic_exchange_n(queue, 2, __ATOMIC_ACQUIRE)) {
		long op = FUTEX_WAIT | FUTEX_PRIVATE_FLAG;
		gr_wait6(SYS_futex, (long)queue, op, 2, 0, 0, 0, held, cancel);
		if (held == &none || !called_away(self, cancel))
			continue;
		if (may_wait(call)) {
			*ret = NULL;
			return GR_QUEUE_ENDED;
		}
		held = cancel = &none;
	}
	return GR_QUEUE_PASSED;
}

long gr_queue_ended(struct gr_thread *self, long nr, const uint64_t arg[6], const uint32_t *held, const uint32_t *cancel)
{
	(void)self, (void)nr, (void)arg, (void)held, (void)cancel;
	return GR_RESTART;
}

void gr_queue_leave(uint32_t *queue)
{
	if (queue && __atomic_exchange_n(queue, 0, __ATOMIC_RELEASE) == 2)
		GR_RAW(SYS_futex, queue, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1, 0, 0, 0);
}
